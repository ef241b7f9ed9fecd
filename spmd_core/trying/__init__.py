"""Tries out what would remove a run's collectives: compiles each change, one at a time."""

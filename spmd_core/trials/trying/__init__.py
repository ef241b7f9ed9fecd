"""Tries out what would remove a run's collectives: compiles changes, and judges them in order."""

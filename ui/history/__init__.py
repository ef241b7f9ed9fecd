"""The parts of History."""

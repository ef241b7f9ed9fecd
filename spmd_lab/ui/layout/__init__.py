"""The parts of Layout."""

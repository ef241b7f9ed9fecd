"""A training step's time from its plan alone, without compiling."""

"""The computations that an experiment can run, as data."""

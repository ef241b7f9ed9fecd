"""One variable of an experiment, varied."""

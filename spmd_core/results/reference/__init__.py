"""The right answer, in NumPy."""

"""The reference: correct values, in NumPy."""

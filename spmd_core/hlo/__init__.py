"""Reading a compiled module."""

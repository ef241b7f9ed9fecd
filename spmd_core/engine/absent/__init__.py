"""Compiling for devices that are not attached."""

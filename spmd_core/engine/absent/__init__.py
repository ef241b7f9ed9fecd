"""Compiling for devices that are not attached."""

__all__ = ["run", "topology"]

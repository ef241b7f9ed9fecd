"""Compiling for devices that are not attached."""

__all__ = ["devices", "run"]

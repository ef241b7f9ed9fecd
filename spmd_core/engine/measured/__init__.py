"""Running and timing on devices that are attached."""

__all__ = ["compiled", "run"]

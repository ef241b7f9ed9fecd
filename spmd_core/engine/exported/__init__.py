"""Programs of `jax.export`: read, checked, put on another mesh, lowered."""

__all__ = []

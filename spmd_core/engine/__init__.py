"""Runs experiments on devices: with the programs, the only part that imports jax."""

__all__ = ["absent", "devices", "measured", "members", "partitioned", "propagated", "step"]

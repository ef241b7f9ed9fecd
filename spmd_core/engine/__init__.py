"""Runs experiments on devices: with `programs`, the only part that imports jax."""

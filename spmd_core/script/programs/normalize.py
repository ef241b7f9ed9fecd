"""An array divided by the sum of its magnitudes: along its rows, its columns, or both."""

import jax
import jax.numpy as jnp

CONTRACTED_DIMS = (0,)
CONTRACTED_AXES = ()
SUM_DTYPE = None


def normalize_one(x):
    return (x / jnp.abs(x).sum(dtype=SUM_DTYPE)).astype(x.dtype)


def normalize(x):
    return (x / jnp.abs(x).sum(axis=CONTRACTED_DIMS, keepdims=True, dtype=SUM_DTYPE)).astype(
        x.dtype
    )


def normalize_shards(x):
    """Each device sums its own part; psum adds the parts, and every device divides by the same total."""
    total = jax.lax.psum(
        jnp.abs(x).sum(axis=CONTRACTED_DIMS, keepdims=True, dtype=SUM_DTYPE), CONTRACTED_AXES
    )
    return (x / total).astype(x.dtype)


normalize_explicit = normalize

"""a @ b + c, for every matrix of a batch."""

import jax
import jax.numpy as jnp

PRECISION = None
CONTRACTED_AXES = ()
Y_SHARDING = None


def matmul(a, b, c):
    return jnp.matmul(a, b, precision=PRECISION) + c


def matmul_shards(a, b, c):
    """Each device multiplies its own shards; psum adds the partial products along k."""
    return jax.lax.psum(jnp.matmul(a, b, precision=PRECISION), CONTRACTED_AXES) + c


def matmul_explicit(a, b, c):
    """A contraction over a sharded dim is ambiguous in types: say how the product is to be sharded."""
    return jnp.matmul(a, b, precision=PRECISION, out_sharding=Y_SHARDING) + c

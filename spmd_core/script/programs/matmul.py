"""a @ b + c, for every matrix of a batch."""

import jax
import jax.numpy as jnp

PRECISION = None
SUM_DTYPE = None
CONTRACTED_AXES = ()
Y_SHARDING = None


def matmul(a, b, c):
    return jnp.matmul(a, b, precision=PRECISION) + c


def matmul_shards(a, b, c):
    """Each device multiplies its own shards; psum adds the partial products along k, before they are rounded."""
    product = jnp.matmul(a, b, precision=PRECISION, preferred_element_type=SUM_DTYPE)
    return (jax.lax.psum(product, CONTRACTED_AXES) + c).astype(a.dtype)


def matmul_explicit(a, b, c):
    """A contraction over a sharded dim is ambiguous in types: declare how the product is sharded."""
    return jnp.matmul(a, b, precision=PRECISION, out_sharding=Y_SHARDING) + c

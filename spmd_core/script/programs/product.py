"""a @ b."""

import jax
import jax.numpy as jnp

PRECISION = None
SUM_DTYPE = None
CONTRACTED_AXES = ()
Y_SHARDING = None


def product(a, b):
    return jnp.matmul(a, b, precision=PRECISION)


def product_one(row, b):
    """A single row of a."""
    return jnp.matmul(row, b, precision=PRECISION)


def product_shards(a, b):
    """Each device multiplies its own shards; psum adds the partial products along k, before they are rounded."""
    partial = jnp.matmul(a, b, precision=PRECISION, preferred_element_type=SUM_DTYPE)
    return jax.lax.psum(partial, CONTRACTED_AXES).astype(a.dtype)


def product_explicit(a, b):
    """A contraction over a sharded dim is ambiguous in types: declare how the product is sharded."""
    return jnp.matmul(a, b, precision=PRECISION, out_sharding=Y_SHARDING)

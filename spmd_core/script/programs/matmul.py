"""a @ b; a @ b + c, for every matrix of a batch."""

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
    """A contraction over a sharded dim is ambiguous in types: say how the product is to be sharded.
    jnp.matmul drops a batch of one before it applies out_sharding."""
    product = jnp.einsum("...mk,...kn->...mn", a, b, precision=PRECISION, out_sharding=Y_SHARDING)
    return product + c


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

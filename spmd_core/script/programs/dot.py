"""The dot products of the rows of two matrices."""

import jax
import jax.numpy as jnp

PRECISION = None
SUM_DTYPE = None
CONTRACTED_AXES = ()
Y_SHARDING = None


def dot_one(v, u):
    return jnp.vdot(v, u, precision=PRECISION)


def dot(v, u):
    return jax.vmap(dot_one)(v, u)


def dot_shards(v, u):
    """Each device multiplies its own parts of its rows; psum adds the partial sums of a row, before they are rounded."""
    product = jnp.einsum("nk,nk->n", v, u, precision=PRECISION, preferred_element_type=SUM_DTYPE)
    return jax.lax.psum(product, CONTRACTED_AXES).astype(v.dtype)


def dot_explicit(v, u):
    """A contraction over a sharded dim is ambiguous in types: declare how the result is sharded."""
    return jnp.einsum("nk,nk->n", v, u, precision=PRECISION, out_sharding=Y_SHARDING)

"""sigmoid(x @ weights + bias), a dense layer."""

import jax
import jax.numpy as jnp

PRECISION = None
SUM_DTYPE = None
CONTRACTED_AXES = ()
RESULT_SHARDING = None


def layer(x, weights, bias):
    return jax.nn.sigmoid(jnp.matmul(x, weights, precision=PRECISION) + bias)


def layer_shards(x, weights, bias):
    """Each device multiplies its own shards; psum adds the partial products along the contracted dim, before they are rounded."""
    product = jnp.matmul(x, weights, precision=PRECISION, preferred_element_type=SUM_DTYPE)
    return jax.nn.sigmoid(jax.lax.psum(product, CONTRACTED_AXES) + bias).astype(x.dtype)


def layer_explicit(x, weights, bias):
    """A contraction over a sharded dim is ambiguous in types: declare how the product is sharded."""
    product = jnp.matmul(x, weights, precision=PRECISION, out_sharding=RESULT_SHARDING)
    return jax.nn.sigmoid(product + bias)

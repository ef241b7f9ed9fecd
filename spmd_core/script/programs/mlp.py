"""relu(x @ w1 + b1) @ w2 + b2, two dense layers."""

import jax
import jax.numpy as jnp

PRECISION = None
SUM_DTYPE = None
IN_AXES = ()
HIDDEN_AXES = ()
ACTIVATION_SHARDING = None
Y_SHARDING = None


def mlp(x, w1, b1, w2, b2):
    activation = jax.nn.relu(jnp.matmul(x, w1, precision=PRECISION) + b1)
    return jnp.matmul(activation, w2, precision=PRECISION) + b2


def mlp_shards(x, w1, b1, w2, b2):
    """Two sums over devices: after the first layer along `in`, after the second along `hidden`; what they add is not rounded before."""
    product = jnp.matmul(x, w1, precision=PRECISION, preferred_element_type=SUM_DTYPE)
    activation = jax.nn.relu(jax.lax.psum(product, IN_AXES) + b1).astype(x.dtype)
    product = jnp.matmul(activation, w2, precision=PRECISION, preferred_element_type=SUM_DTYPE)
    return (jax.lax.psum(product, HIDDEN_AXES) + b2).astype(x.dtype)


def mlp_explicit(x, w1, b1, w2, b2):
    """Contractions over sharded dims are ambiguous in types: declare how each product is sharded."""
    product = jnp.matmul(x, w1, precision=PRECISION, out_sharding=ACTIVATION_SHARDING)
    activation = jax.nn.relu(product + b1)
    return jnp.matmul(activation, w2, precision=PRECISION, out_sharding=Y_SHARDING) + b2

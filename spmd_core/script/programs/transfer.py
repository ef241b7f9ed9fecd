"""A copy of an array; the memory kinds of operand and result say from where to where."""

import jax.numpy as jnp


def transfer(x):
    return jnp.copy(x)


transfer_shards = transfer
transfer_explicit = transfer

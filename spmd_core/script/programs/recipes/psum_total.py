"""Each device sums its own shard, and psum adds the sums of all: every device holds the total."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def program(mesh):
    x = jnp.arange(32)

    def f(x):
        sum_in_shard = x.sum()
        return jax.lax.psum(sum_in_shard, "x")

    return {"total": jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P())(x)}

"""What a function sees inside shard_map: the shape of one shard."""

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P


def program(mesh):
    seen = {}
    x = jnp.arange(32)
    seen["global shape"] = str(x.shape)

    def f(x):
        seen["device local shape"] = str(x.shape)  # while JAX traces f: once, for all devices
        return x * 2

    y = jax.shard_map(f, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)
    return {"y": y, **seen}

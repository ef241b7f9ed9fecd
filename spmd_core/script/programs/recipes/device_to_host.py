"""From device memory to host memory inside jit: the result's sharding gives its destination."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def program(mesh):
    s_host = NamedSharding(mesh, P("x", "y"), memory_kind="pinned_host")
    s_dev = s_host.with_memory_kind("device")
    arr_dev = jax.device_put(jnp.arange(32.0).reshape(4, 8), s_dev)

    g = jax.jit(lambda x: x, out_shardings=s_host)
    out_host = g(arr_dev)
    return {
        "out_host": out_host,
        "memory before": arr_dev.sharding.memory_kind,
        "memory after": out_host.sharding.memory_kind,
    }

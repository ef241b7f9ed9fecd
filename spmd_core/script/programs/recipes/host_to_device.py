"""From host memory to device memory inside jit: the result's sharding gives its destination."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def program(mesh):
    s_host = NamedSharding(mesh, P("x", "y"), memory_kind="pinned_host")
    s_dev = s_host.with_memory_kind("device")
    arr_host = jax.device_put(jnp.arange(32.0).reshape(4, 8), s_host)

    f = jax.jit(lambda x: x, out_shardings=s_dev)
    out_dev = f(arr_host)
    return {
        "out_dev": out_dev,
        "memory before": arr_host.sharding.memory_kind,
        "memory after": out_dev.sharding.memory_kind,
    }

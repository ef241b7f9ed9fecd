"""The same array with the same sharding, in host memory and in device memory."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def program(mesh):
    arr = jnp.arange(32.0).reshape(4, 8)
    s_host = NamedSharding(mesh, P("x", "y"), memory_kind="pinned_host")
    s_dev = s_host.with_memory_kind("device")
    arr_host = jax.device_put(arr, s_host)
    arr_dev = jax.device_put(arr, s_dev)
    return {
        "arr_host": arr_host,
        "arr_dev": arr_dev,
        "memory of arr_host": arr_host.sharding.memory_kind,
        "memory of arr_dev": arr_dev.sharding.memory_kind,
    }

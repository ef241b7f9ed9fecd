"""What no program of this machine passes: copies, matmuls and host transfers, on all devices of a
mesh at once, each on data of its own.
"""

from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P


def everywhere(mesh, memory="device"):
    """A sharding of the first dim over all devices."""
    return NamedSharding(mesh, P(mesh.axis_names), memory_kind=memory)


def filled(mesh, shape, dtype, memory="device"):
    """[devices, *shape] on the mesh, a part of each device's own, small numbers."""
    total = (mesh.devices.size, *shape)
    count = int(np.prod(shape))
    part = ((np.arange(count) % 7 - 3) / 8).reshape(1, *shape).astype(dtype)
    return jax.make_array_from_callback(total, everywhere(mesh, memory), lambda index: part)


def copied(mesh):
    """Reads and writes each byte once, into a fresh array."""
    return jax.jit(lambda x: x + 1, out_shardings=everywhere(mesh))


def copied_in_place(mesh):
    """Reads and writes each byte once, the result in the operand's memory."""
    return jax.jit(lambda x: x + 1, out_shardings=everywhere(mesh), donate_argnums=0)


def multiplied(mesh):
    """A matmul on each device: [devices, n, n] by [devices, n, n]."""
    return jax.jit(lambda a, b: jnp.einsum("dij,djk->dik", a, b), out_shardings=everywhere(mesh))


def best_seconds(call, *arguments, repeats=9):
    """The fastest of a few calls, each waited for."""
    jax.block_until_ready(call(*arguments))
    times = []
    for _ in range(repeats):
        start = perf_counter()
        jax.block_until_ready(call(*arguments))
        times.append(perf_counter() - start)
    return min(times)


def ceilings(mesh, nbytes=32 * 2**20, side=1024):
    """Name -> what a device reaches while all of them work."""
    numbers = filled(mesh, (nbytes // 4,), "float32")
    found = {"copy": f"{2 * nbytes / best_seconds(copied(mesh), numbers) / 1e9:.3g} GB/s a device"}
    for dtype in ("float32", "bfloat16", "float16"):
        factor = filled(mesh, (side, side), dtype)
        rate = 2 * side**3 / best_seconds(multiplied(mesh), factor, factor)
        found[f"matmul in {dtype}"] = f"{rate / 1e9:.3g} GFLOP/s a device"
    return found

"""Ceilings of this machine: copies, matmuls and host transfers on all devices of a mesh at once, each on its own data."""

import math
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


def products(mesh, count):
    """On each device `count` times a product of a [rows, inner], b [inner, columns] and
    c [columns, inner], each of two matmuls that wait for one another.
    """

    def chained(a, b, c):
        for _ in range(count):
            a = (a @ b) @ c
        return a

    return jax.jit(on_each(mesh, chained, 3))


def moves(mesh, kind, axes, count):
    """On each device `count` collectives over mesh axes, each on the result of the one before."""
    size = math.prod(mesh.shape[axis] for axis in axes)
    following = [(place, (place + 1) % size) for place in range(size)]

    def once(x):
        if kind == "all-gather":
            return jax.lax.all_gather(x[: x.size // size], axes, tiled=True)
        if kind == "all-reduce":
            return jax.lax.psum(x, axes)
        if kind == "all-to-all":
            return jax.lax.all_to_all(x, axes, 0, 0, tiled=True)
        return jax.lax.ppermute(x, axes, following)

    def chained(x):
        for _ in range(count):
            x = once(x)
        return x

    return jax.jit(on_each(mesh, chained, 1))


def loops(mesh, across, count):
    """On each device `count` loops over an array, in the order of memory or across it. A value known only at run time chooses between two equal loops, so that
    the compiler does not merge them.
    """

    def once(x, added):
        return (x.T if across else x) + added

    def chained(which, x):
        for _ in range(count):
            x = jax.lax.cond(which[0] > 0, lambda x: once(x, 1), lambda x: once(x, 2), x)
        return x

    return jax.jit(on_each(mesh, chained, 2))


def sigmoids(mesh):
    """A transcendental function of each element."""
    return jax.jit(on_each(mesh, jax.nn.sigmoid, 1))


def on_each(mesh, function, operands):
    """A function of each device's shard of its operands, which `filled` makes."""
    whole = P(mesh.axis_names)
    return jax.shard_map(
        lambda *parts: function(*(part[0] for part in parts))[None],
        mesh=mesh,
        in_specs=(whole,) * operands,
        out_specs=whole,
        check_vma=False,
    )


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
    """Name -> the rate that a device reaches while all devices work."""
    numbers = filled(mesh, (nbytes // 4,), "float32")
    found = {"copy": f"{2 * nbytes / best_seconds(copied(mesh), numbers) / 1e9:.3g} GB/s a device"}
    for dtype in ("float32", "bfloat16", "float16"):
        factor = filled(mesh, (side, side), dtype)
        rate = 2 * side**3 / best_seconds(multiplied(mesh), factor, factor)
        found[f"matmul in {dtype}"] = f"{rate / 1e9:.3g} GFLOP/s a device"
    return found

"""Ceilings of this machine: copies, matmuls and host transfers on all devices of a mesh at once, each on its own data."""

from time import perf_counter

import jax
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


def repeated(mesh, once, operands, count=None):
    """A program that runs `once` on each device as often as its first argument says, each time on the result of the time before; its other operands stay. Where `count` is
    given, the compiler knows how often that is.
    """

    def run(times, first, *others):
        times = times if count is None else count
        return jax.lax.fori_loop(0, times, lambda turn, x: once(x, *others), first)

    return jax.jit(on_each(mesh, run, operands), donate_argnums=1)


def copied(pair):
    """One array read and another written, there and back: twice the bytes of the pair. The barrier keeps the compiler from reading the first array for both."""
    there = jax.lax.optimization_barrier(pair[0] + 1)
    return there + 1, there


def added(x):
    """Reads and writes each byte once, the result in the operand's memory."""
    return x + 1


def across(x):
    """A loop that reads in the order of memory and writes across it."""
    return x.T + 1


def products(a, b, c):
    """Two matmuls that wait for one another: a [rows, inner] by b [inner, columns] and c [columns, inner]."""
    return (a @ b) @ c


def fresh(mesh):
    """Reads and writes each byte once, into a fresh array."""
    return jax.jit(lambda x: x + 1, out_shardings=everywhere(mesh))


def on_each(mesh, function, operands):
    """A function of a number and of each device's shard of its operands, which `filled` makes."""
    whole = P(mesh.axis_names)

    def on_one(number, *parts):
        parts = jax.tree.map(lambda part: part[0], parts)
        return jax.tree.map(lambda part: part[None], function(number, *parts))

    return jax.shard_map(
        on_one,
        mesh=mesh,
        in_specs=(P(),) + (whole,) * operands,
        out_specs=whole,
        check_vma=False,
    )


def seconds_each(mesh, once, first, *others, more=8, repeats=7):
    """Seconds of one repetition: what a call of many takes beyond a call of one, the fastest of a few."""
    program = repeated(mesh, once, 1 + len(others))
    took = {1: [], 1 + more: []}
    for _ in range(repeats):
        for count in took:
            start = perf_counter()
            first = jax.block_until_ready(program(count, first, *others))
            took[count].append(perf_counter() - start)
    return (min(took[1 + more]) - min(took[1][1:])) / more


def ceilings(mesh, nbytes=32 * 2**20, side=1024):
    """Name -> the rate that a device reaches while all devices work."""
    seconds = seconds_each(mesh, added, filled(mesh, (nbytes // 4,), "float32"))
    found = {"copy in place": f"{2 * nbytes / seconds / 1e9:.3g} GB/s a device"}
    for dtype in ("float32", "bfloat16", "float16"):
        factors = [filled(mesh, (side, side), dtype) for _ in range(3)]
        rate = 4 * side**3 / seconds_each(mesh, products, *factors)
        found[f"matmul in {dtype}"] = f"{rate / 1e9:.3g} GFLOP/s a device"
    return found

"""Collectives over axes of a mesh, one at a time: what each device sends, and the expected result.

Every device of the mesh takes part: the groups over the chosen axes communicate at the same time, as in a program.
"""

import math
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def group_size(mesh, axes):
    """Devices of a group over these axes."""
    return math.prod(mesh.shape[axis] for axis in axes)


def body(kind, mesh, axes):
    """What one device runs: from its one-dimensional operand to its result."""
    size = group_size(mesh, axes)
    following = [(place, (place + 1) % size) for place in range(size)]
    return {
        "all-reduce": lambda x: jax.lax.psum(x, axes),
        "all-gather": lambda x: jax.lax.all_gather(x, axes, tiled=True),
        "reduce-scatter": lambda x: jax.lax.psum_scatter(x, axes, tiled=True),
        "all-to-all": lambda x: jax.lax.all_to_all(x, axes, 0, 0, tiled=True),
        "collective-permute": lambda x: jax.lax.ppermute(x, axes, following),
    }[kind]


def chained(kind, mesh, axes):
    """What one device repeats within a program: the collective twice, each on the result of the one before, from arrays of one size to arrays of that size."""
    size, once = group_size(mesh, axes), body(kind, mesh, axes)

    def one(x):
        if kind == "all-gather":
            return once(x[: x.size // size])
        if kind == "reduce-scatter":
            return x.at[: x.size // size].set(once(x))
        return once(x)

    return lambda x: one(one(x))


def repeated(mesh, once, operands=1, count=None):
    """A program that runs `once` on each device as often as its first argument says, each time on the result of the time before. Where `count` is given, the compiler knows how
    often that is.
    """
    everywhere = P(mesh.axis_names)

    def run(times, x):
        return jax.lax.fori_loop(0, times if count is None else count, lambda turn, x: once(x), x)

    return jax.jit(
        jax.shard_map(
            run, mesh=mesh, in_specs=(P(), everywhere), out_specs=everywhere, check_vma=False
        ),
        donate_argnums=1,
    )


def halves(mesh):
    """Two meshes of half of the devices each, along the first axis of an even size."""
    even = next(place for place, size in enumerate(mesh.devices.shape) if size % 2 == 0)
    return [Mesh(half, mesh.axis_names) for half in np.split(mesh.devices, 2, even)]


def ends(mesh, axes):
    """The shardings of an array on either half: rows over all devices of one, columns over the axes on the other."""
    first, second = halves(mesh)
    return NamedSharding(first, P(first.axis_names)), NamedSharding(second, P(None, axes))


def between(kind, mesh, axes):
    """The function that brings an array from one half to the other, and to the sharding that is wanted there."""
    sent, wanted = ends(mesh, axes)
    if kind == "meshes-over-host":

        def over_host(x):
            parts = [each.data for each in x.addressable_shards]
            # a new array: one that was on the host before would not be copied again
            again = jax.make_array_from_single_device_arrays(x.shape, x.sharding, parts)
            return jax.device_put(np.asarray(again), wanted)

        return over_host
    before = NamedSharding(sent.mesh, wanted.spec)
    if kind == "meshes-reshard-first":
        reshard = jax.jit(lambda x: x, out_shardings=before)
        return lambda x: jax.device_put(reshard(x), wanted)
    reshard = jax.jit(lambda x: x, out_shardings=wanted)
    return lambda x: reshard(jax.device_put(x, NamedSharding(wanted.mesh, sent.spec)))


def passed(mesh, axes, shape):
    """(source, destination) -> the rows and columns that pass between these devices: the intersection of what one has and the other wants."""
    had, wants = (each.devices_indices_map(shape) for each in ends(mesh, axes))
    pairs = {}
    for source, mine in had.items():
        for destination, theirs in wants.items():
            both = []
            for size, one, other in zip(shape, mine, theirs, strict=True):
                (low, high, _), (least, most, _) = one.indices(size), other.indices(size)
                both.append((max(low, least), min(high, most)))
            if all(low < high for low, high in both):
                pairs[source, destination] = both
    return pairs


def has_arrived(mesh, axes, output, count, dtype):
    """Returns True if every device of the other half, and no other, holds what passes to it from each of the first, and nothing else."""
    _, wanted = ends(mesh, axes)
    held = {shard.device: shard for shard in output.addressable_shards}
    if held.keys() != wanted.device_set:
        return False
    left = {device: shard.data.size for device, shard in held.items()}
    for (_, device), ((low, high), (first, last)) in passed(mesh, axes, output.shape).items():
        down, across = (
            each.indices(size)[0]
            for each, size in zip(held[device].index, output.shape, strict=True)
        )
        block = np.asarray(held[device].data)[
            low - down : high - down, first - across : last - across
        ]
        left[device] -= block.size
        if not np.array_equal(block, values(low, count, dtype)[None, first:last]):
            return False
    return not any(left.values())


def transfer(kind, mesh, axes):
    """The Python function to compile: from arrays sharded over all devices to arrays sharded the same way. Between two meshes no program is: it is called as it is."""
    everywhere = P(mesh.axis_names)
    if kind.startswith("meshes"):
        return between(kind, mesh, axes)
    if kind in ("host-to-device", "device-to-host"):
        memory = "device" if kind == "host-to-device" else "pinned_host"
        return jax.jit(jnp.copy, out_shardings=NamedSharding(mesh, everywhere, memory_kind=memory))
    return jax.jit(
        jax.shard_map(
            body(kind, mesh, axes),
            mesh=mesh,
            in_specs=everywhere,
            out_specs=everywhere,
            check_vma=False,
        )
    )


def element_count(kind, mesh, axes, nbytes, dtype):
    """Elements of a device's operand, so that `nbytes` are moved as nccl-tests counts them."""
    size, each = group_size(mesh, axes), np.dtype(dtype).itemsize
    whole = max(1, round(nbytes / each / size)) * size
    return whole // size if kind == "all-gather" else whole


def whole_count(kind, mesh, axes, count):
    """Elements of the array that is handed from one repetition to the next."""
    return count * group_size(mesh, axes) if kind == "all-gather" else count


def values(device, count, dtype):
    """Ones and zeros, whose sums every dtype holds exactly; no two neighbors send the same."""
    return ((np.arange(count) + device) % 3 == 0).astype(dtype)


def operand(kind, mesh, count, dtype):
    """The operand of every device, on the mesh; or on its first half."""
    if kind.startswith("meshes"):
        sent, _ = ends(mesh, ())

        def row(index):
            return values(index[0].start or 0, count, dtype)[None]

        return jax.make_array_from_callback((sent.num_devices, count), sent, row)
    memory = "pinned_host" if kind == "host-to-device" else "device"
    sharding = NamedSharding(mesh, P(mesh.axis_names), memory_kind=memory)

    def part(index):
        return values((index[0].start or 0) // count, count, dtype)

    return jax.make_array_from_callback((count * mesh.devices.size,), sharding, part)


def groups(mesh, axes):
    """[groups, devices of a group]: positions in the mesh."""
    places = np.arange(mesh.devices.size).reshape(mesh.devices.shape)
    within = [mesh.axis_names.index(axis) for axis in axes]
    return np.moveaxis(places, within, range(-len(within), 0)).reshape(-1, group_size(mesh, axes))


def expected(kind, members, place, count, dtype):
    """The expected result on the device at position `place` of a group."""
    if kind in ("host-to-device", "device-to-host"):
        return values(members[place], count, dtype)
    if kind == "collective-permute":
        return values(members[place - 1], count, dtype)
    if kind == "all-gather":
        return np.concatenate([values(member, count, dtype) for member in members])
    part = slice(place * (count // len(members)), (place + 1) * (count // len(members)))
    if kind == "all-to-all":
        return np.concatenate([values(member, count, dtype)[part] for member in members])
    total = np.sum([values(member, count, np.int64) for member in members], axis=0)
    return (total if kind == "all-reduce" else total[part]).astype(dtype)


def is_right(kind, mesh, axes, output, count, dtype, devices=2):
    """Whether the first and the last device of the mesh hold the expected result; of two meshes every one."""
    if kind.startswith("meshes"):
        return has_arrived(mesh, axes, output, count, dtype)
    size = output.shape[0] // mesh.devices.size
    held = {(shard.index[0].start or 0) // size: shard for shard in output.addressable_shards}
    looked_at = sorted(held)[:: max(1, len(held) - 1)][:devices]
    for members in groups(mesh, axes) if axes else [range(mesh.devices.size)]:
        for place, device in enumerate(members):
            if device in looked_at:
                wanted = expected(kind, list(members), place, count, dtype)
                if not np.array_equal(np.asarray(held[device].data), wanted):
                    return False
    return True


def seconds_each(call, argument, repeats=7):
    """Seconds of a call that is waited for: the median of a few."""
    jax.block_until_ready(call(argument))
    times = []
    for _ in range(repeats):
        start = perf_counter()
        jax.block_until_ready(call(argument))
        times.append(perf_counter() - start)
    return float(np.median(times))


def seconds_within(mesh, once, whole, more=8, repeats=7):
    """Seconds of one collective within a program: what 1 + `more` repetitions of two take beyond one, the fastest of a few."""
    program, took = repeated(mesh, once), {1: [], 1 + more: []}
    for _ in range(repeats):
        for count in took:
            start = perf_counter()
            whole = jax.block_until_ready(program(count, whole))
            took[count].append(perf_counter() - start)
    return (min(took[1 + more]) - min(took[1][1:])) / (2 * more)


def sweep(mesh, kinds, axes_of, sizes, dtype):
    """Kind, axes and bytes -> seconds and algorithm bandwidth, measured one after another."""
    found = {}
    for kind in kinds:
        is_call = "host" in kind or kind.startswith("meshes")
        for axes in [()] if kind in ("host-to-device", "device-to-host") else axes_of:
            call = transfer(kind, mesh, axes)
            for nbytes in sizes:
                count = element_count(kind, mesh, axes, nbytes, dtype)
                argument = operand(kind, mesh, count, dtype)
                right = is_right(kind, mesh, axes, call(argument), count, dtype)
                if is_call:
                    seconds = seconds_each(call, argument)
                else:
                    whole = operand(kind, mesh, whole_count(kind, mesh, axes, count), dtype)
                    seconds = seconds_within(mesh, chained(kind, mesh, axes), whole)
                name = f"{kind} over {'+'.join(axes) or 'every device'}, {nbytes} bytes"
                found[name] = (
                    f"{seconds * 1e6:.1f} us, {nbytes / seconds / 1e9:.3g} GB/s"
                    f"{'' if right else ', WRONG'}"
                )
    return found

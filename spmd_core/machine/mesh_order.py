"""Assigns the devices of a topology to mesh positions: in `topology` order, as jax's mesh_utils
does, or in `plain` order, as they are listed, which for GPUs is the same.

The screen cannot import jax, so the assignment is reimplemented here; a test compares it with
mesh_utils.
"""

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from spmd_core.base import refuse
from spmd_core.machine.topologies import Coordinates
from spmd_core.machine.topology import Topology

# Small slices whose chips mesh_utils puts in a ring by hand; positions in row-major order of the
# chips, x fastest.
_RINGS_BY_X: dict[tuple[int, ...], tuple[int, ...]] = {
    (2, 2): (0, 1, 3, 2),
    (2, 4): (0, 1, 2, 3, 7, 6, 5, 4),
    (4, 4): (0, 1, 2, 3, 7, 6, 5, 9, 10, 11, 15, 14, 13, 12, 8, 4),
}
_CUBE_RING = (0, 1, 3, 2, 6, 7, 5, 4)
_HOST_RING = (0, 1, 2, 3, 6, 7, 4, 5)  # of the 8 devices of a host with two to a chip, as listed
# from here on v5p 2x2x2 is a ring, and TPU7x prefers the link between the two devices of a chip;
# 0.11 was not checked
_LATER_JAX = (0, 12)


def mesh_places(topology: Topology, sizes: Sequence[int], order: str = "topology") -> np.ndarray:
    """[*sizes, 5]: the coordinates (x, y, z, core, slice) of every device of a mesh with axes of
    these sizes.

    `order` is "topology" or "plain", as an experiment's `device_order`. RequestError where the mesh
    does not fill the topology. mesh_utils of JAX before 0.12 fails where it has to split an axis
    with a prime factor of 5 or more; here the axis is split as in later versions.
    """
    return _places(topology, tuple(int(size) for size in sizes), order, _installed_jax())


def mesh_groups(
    places: np.ndarray, mesh: Sequence[tuple[str, int]], axes: Sequence[str]
) -> np.ndarray:
    """[groups, devices, 5]: the coordinates of the devices of each group over these axes of a mesh, of
    `places`, [*sizes, 5].
    """
    own = [at for at, (name, _) in enumerate(mesh) if name in axes]
    apart = np.moveaxis(places, own, range(-1 - len(own), -1))
    return apart.reshape(-1, math.prod(mesh[at][1] for at in own), 5)


@lru_cache(maxsize=64)
def _places(
    topology: Topology, sizes: tuple[int, ...], order: str, jax_version: tuple[int, int]
) -> np.ndarray:
    every = _listed(topology)
    if math.prod(sizes) != len(every):
        raise refuse(
            f"mesh of {math.prod(sizes)} devices",
            f"does not fill {topology.name} with its {len(every)}",
            f"make the axes multiply to {len(every)}",
        )
    if order == "plain" or topology.chip.is_gpu:
        return every.reshape(*sizes, 5)
    between = slices_by_axis(topology.slices, sizes)
    within = tuple(size // count for size, count in zip(sizes, between, strict=True))
    one = every[: len(every) // topology.slices]
    inside = one[_in_slice(topology, within, jax_version)]
    places = np.empty((*sizes, 5), dtype=np.int64)
    for number, block in enumerate(itertools.product(*(range(count) for count in between))):
        part = inside.copy()
        part[..., 4] = number
        places[
            tuple(slice(at * size, (at + 1) * size) for at, size in zip(block, within, strict=True))
        ] = part
    return places


@lru_cache(maxsize=16)  # of thousands of devices it takes milliseconds
def _listed(topology: Topology) -> np.ndarray:
    """[devices, 5] of `listed`, read-only."""
    every = np.array(listed(topology))
    every.flags.writeable = False
    return every


@lru_cache(maxsize=16)
def listed(topology: Topology) -> tuple[Coordinates, ...]:
    """Coordinates of the devices in the order in which the TPU compiler lists them: slices, then
    hosts of 2 x 2 chips, x fastest. GPUs are listed domain by domain.
    """
    x, y, z = (*topology.shape, 1, 1)[:3]
    return tuple(
        (host_x + i, host_y + j, k, core, number)
        for number in range(topology.slices)
        for k in range(z)
        for host_y in range(0, y, 2)
        for host_x in range(0, x, 2)
        for j in range(min(2, y - host_y))
        for i in range(min(2, x - host_x))
        for core in range(topology.chip.devices_per_chip)
    )


def device_ids(topology: Topology, places: np.ndarray) -> np.ndarray:
    """JAX's numbers of the devices at coordinates [..., 5], int64 [...].

    The TPU compiler numbers the chips of a slice row by row, x fastest, and the devices of a chip
    one after the other; with several slices, slice s begins at 100,000 (s + 1). Read off libtpu.
    GPUs are numbered as they are listed.
    """
    if topology.chip.is_gpu:
        return places[..., 0] + topology.shape[0] * places[..., 4]
    x, y = (*topology.shape, 1, 1)[:2]
    chip = places[..., 0] + x * (places[..., 1] + y * places[..., 2])
    within = chip * topology.chip.devices_per_chip + places[..., 3]
    return within + (100_000 * (places[..., 4] + 1) if topology.slices > 1 else 0)


def slices_by_axis(slices: int, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """The number of slices along each mesh axis. The first axes take as many as they can; together
    they take all slices if the mesh fills them.
    """
    between, rest = [], slices
    for size in sizes:
        between.append(math.gcd(size, rest))
        rest //= between[-1]
    return tuple(between)


def _in_slice(
    topology: Topology, sizes: tuple[int, ...], jax_version: tuple[int, int]
) -> np.ndarray:
    """[*sizes]: positions in the listing of one slice."""
    by_hand = _by_hand(topology, sizes, jax_version)
    if by_hand is not None:
        return by_hand
    physical = _physical(topology)
    core_first = physical.ndim == 4 and jax_version >= _LATER_JAX
    axes = _unsplit_axes(physical.shape, sizes, core_first)
    if axes is not None:
        return physical.transpose([axis for taken in axes for axis in taken]).reshape(sizes)
    return _split_axes(physical, sizes)


def _physical(topology: Topology) -> np.ndarray:
    """[x, y, z] or [x, y, z, core]: positions in the listing of one slice."""
    one = Topology(topology.chip, topology.shape)
    x, y, z = (*topology.shape, 1, 1)[:3]
    cores = topology.chip.devices_per_chip
    positions = np.empty((x, y, z, cores), dtype=np.int64)
    for position, (at_x, at_y, at_z, core, _) in enumerate(listed(one)):
        positions[at_x, at_y, at_z, core] = position
    return positions if cores > 1 else positions[..., 0]


def _by_hand(
    topology: Topology, sizes: tuple[int, ...], jax_version: tuple[int, int]
) -> np.ndarray | None:
    """Slices whose devices mesh_utils orders without regard to the torus."""
    generation, shape = topology.chip.generation, topology.shape
    devices = math.prod(sizes)
    if generation in ("v2", "v3"):
        rows = np.arange(devices).reshape(-1, 8 if devices == 8 or sizes[-1] == 8 else 1)
        return (rows[:, list(_HOST_RING)] if rows.shape[1] == 8 else rows).reshape(sizes)
    if (
        generation in ("v5e", "v6e")
        and shape in _RINGS_BY_X
        and (shape != (4, 4) or max(sizes) == devices)
    ):
        return _by_x(topology)[list(_RINGS_BY_X[shape])].reshape(sizes)
    if generation == "v5p" and shape == (2, 2, 2) and jax_version >= _LATER_JAX:
        return _by_x(topology)[list(_CUBE_RING)].reshape(sizes)
    if generation == "tpu7x" and devices <= 32 and max(shape[:2]) <= 2:
        return np.arange(devices).reshape(-1, 8)[:, list(_HOST_RING)].reshape(sizes)
    return None


def _by_x(topology: Topology) -> np.ndarray:
    """Positions in the listing, in row-major order of the chips, x fastest."""
    return _physical(topology).transpose().reshape(-1)


def _unsplit_axes(
    shape: tuple[int, ...], sizes: tuple[int, ...], core_first: bool
) -> list[tuple[int, ...]] | None:
    """The physical axes assigned to each mesh axis if none has to be split, the last mesh axis
    first; None if some axis has to be split.
    """
    left = list(shape)
    assigned: list[tuple[int, ...]] = [() for _ in sizes]
    for mesh_axis in reversed(range(len(sizes))):
        for count in range(len(shape), 0, -1):
            candidates = list(itertools.combinations(range(len(shape)), count))
            if core_first:
                rank = [1, 2, 3, 0]
                candidates.sort(
                    key=lambda axes: (
                        min(rank[axis] for axis in axes),
                        sum(rank[axis] for axis in axes),
                    )
                )
            fit = next(
                (
                    axes
                    for axes in candidates
                    if math.prod(left[axis] for axis in axes) == sizes[mesh_axis]
                ),
                None,
            )
            if fit is not None:
                assigned[mesh_axis] = fit
                left = [0 if axis in fit else size for axis, size in enumerate(left)]
                break
        else:
            if sizes[mesh_axis] > 1:
                return None
    return assigned


def _split_axes(physical: np.ndarray, sizes: tuple[int, ...]) -> np.ndarray:
    """[*sizes]: positions where physical axes are split among mesh axes. Within a physical axis,
    later mesh axes get adjacent chips.
    """
    shape = physical.shape
    taken = np.ones((len(shape), len(sizes)), dtype=np.int64)
    for mesh_axis in reversed(range(len(sizes))):
        used = taken.prod(axis=1)
        free = [int(size // part) for size, part in zip(shape, used, strict=True)]

        def liking(parts: tuple[int, ...], used: Any = used) -> tuple[Any, ...]:
            complete = [part for part, size in zip(parts, shape, strict=True) if part == size]
            on_used = [part for part, before in zip(parts, used, strict=True) if before > 1]
            return (
                math.prod(complete),
                sum(part > 1 for part in complete),
                math.prod(on_used),
                parts,
            )

        choices = [
            parts
            for parts in itertools.product(*(_divisors(size) for size in free))
            if math.prod(parts) == sizes[mesh_axis]
        ]
        taken[:, mesh_axis] = max(choices, key=liking)
    order = sorted(range(taken.size), key=lambda at: (at % len(sizes), at // len(sizes)))
    return physical.reshape(taken.reshape(-1)).transpose(order).reshape(sizes)


@lru_cache(maxsize=64)
def _divisors(number: int) -> tuple[int, ...]:
    return tuple(part for part in range(1, number + 1) if number % part == 0)


@lru_cache(maxsize=1)
def _installed_jax() -> tuple[int, int]:
    """Version of the JAX that the workers use, without importing it."""
    try:
        major, minor = version("jax").split(".")[:2]
        return int(major), int(minor)
    except (PackageNotFoundError, ValueError):
        return _LATER_JAX

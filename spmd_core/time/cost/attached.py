"""The topology of attached TPUs and GPUs, read off their devices, for the cost of programs that run
there.
"""

import math
from collections.abc import Mapping, Sequence

from spmd_core.base import by_key, check_known, refuse
from spmd_core.machine import BY_DEVICE_KIND, CHIPS, Chip, Topology
from spmd_core.time.cost.comm import Cluster

Coordinates = tuple[int, ...]  # x, y, z, core, slice
Box = tuple[tuple[int, int], ...]  # least and largest coordinate along x, y, z


def cluster_of(
    device_kind: str, places: Sequence[Coordinates], used: Sequence[Coordinates]
) -> Cluster:
    """All attached devices as a topology, and the devices of a program in its order; RequestError
    where they are no full box of a known chip.

    Coordinates may start anywhere, as on a host in the middle of a larger slice: they are counted
    from the least.
    """
    check_known("device kind", device_kind, BY_DEVICE_KIND, "is none whose data sheet is here")
    chip = CHIPS[BY_DEVICE_KIND[device_kind]]
    slices = by_key((place[-1], place) for place in places)
    boxes = {  # of each slice the least and the largest coordinate along x, y, z
        number: tuple(
            (min(axis), max(axis)) for axis in zip(*(place[:-2] for place in of_slice), strict=True)
        )
        for number, of_slice in slices.items()
    }
    shape = _shape(chip, boxes, slices)
    if shape is None:
        raise refuse(
            f"the {len(places)} attached {device_kind} devices",
            f"do not form a box of {chip.title} chips by their coordinates",
            "use all devices of a slice",
        )
    ranks = {number: rank for rank, number in enumerate(sorted(slices))}
    if not set(used) <= set(places):
        rule = "is not among the attached ones"
        raise refuse("a device of the program", rule, "run it on attached devices")
    lowest = {number: [low for low, _ in box] for number, box in boxes.items()}
    moved = (
        (
            *(value - low for value, low in zip(place[:-2], lowest[place[-1]], strict=True)),
            place[-2],
            ranks[place[-1]],
        )
        for place in used
    )
    return Cluster(Topology(chip, shape, len(slices)), tuple(moved))


def _shape(
    chip: Chip, boxes: Mapping[int, Box], slices: Mapping[int, Sequence[Coordinates]]
) -> tuple[int, ...] | None:
    """Chips of a slice along each axis of its torus; None where the devices of each slice are no
    full box that the chip allows, or where slices differ.
    """
    shapes = {tuple(high - low + 1 for low, high in box) for box in boxes.values()}
    if len(shapes) != 1:
        return None
    (sizes,) = shapes
    shape, flat = sizes[: chip.torus_dims], sizes[chip.torus_dims :]
    cores = {place[-2] for places in slices.values() for place in places}
    is_full = all(
        len(set(each)) == len(each) == math.prod(sizes) * len(cores) for each in slices.values()
    )
    limits = zip(sorted(shape), sorted(chip.max_shape), strict=True)
    fits = bool(shape) and all(size <= most for size, most in limits)
    is_box = is_full and fits and all(size == 1 for size in flat)
    return shape if is_box and len(cores) == chip.devices_per_chip else None

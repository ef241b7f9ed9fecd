"""Topologies for a number of chips, and the nearest legal topology to a target."""

import math

from spmd_core.base import RequestError, refuse
from spmd_core.machine.chips import CHIPS
from spmd_core.machine.targets import Target
from spmd_core.machine.topologies import Topology, get_topology, legal_shapes, nearest_names

MAX_SLICES = 256
_FALLBACK = "v5e"  # for a target that is not a TPU; one device per chip


def topology_of_chips(generation: str, chips: int) -> Topology:
    """The topology of that many chips.

    A single slice if a legal shape has that many chips: the one with the most rings and, among
    these, the shortest sides. Otherwise equal slices of the largest shape that divides the number.
    RequestError, with the nearest numbers, if there is none.
    """
    chip = CHIPS[generation]
    single_slices = [Topology(chip, shape) for shape in legal_shapes(generation)]
    if exact := [topology for topology in single_slices if topology.chips == chips]:
        return min(exact, key=lambda topology: (-sum(topology.wraps), sum(topology.shape)))
    largest = max(topology.chips for topology in single_slices)
    if chips > largest:
        for topology in sorted(
            single_slices, key=lambda topology: (-topology.chips, sum(topology.shape))
        ):
            if chips % topology.chips == 0 and chips // topology.chips <= MAX_SLICES:
                return Topology(chip, topology.shape, chips // topology.chips)
    near = _nearest_counts(generation, chips)[:2]
    counts = (
        [f"{count:,}" for count in sorted(near)]
        if chips <= largest
        else [f"a multiple of {largest:,}"]
    )
    raise refuse(
        f"chips={chips}", f"do not form slices of {chip.title}", f"use {' or '.join(counts)}"
    )


def nearest_of_chips(generation: str, chips: int) -> Topology:
    """The topology of that many chips, or else the legal single slice nearest to them."""
    try:
        return topology_of_chips(generation, chips)
    except RequestError:
        return topology_of_chips(generation, _nearest_counts(generation, chips)[0])


def nearest_topology(target: Target | None, devices: int) -> Topology:
    """The topology that a target names, or the legal one nearest to it.

    Near in shape where the generation is known, with as many slices (at most 256); of a generation
    that is not, or where the target is no TPU (or None), one of v5e with about as many devices.
    """
    names: tuple[str, ...] = ()
    if target is not None and target.generation is not None:
        try:
            return get_topology(target)
        except RequestError:
            names = nearest_names(target)
    return get_topology(names[0]) if names else nearest_of_chips(_FALLBACK, devices)


def _nearest_counts(generation: str, chips: int) -> list[int]:
    """Chips of every single slice, the nearest first."""
    counts = sorted({math.prod(shape) for shape in legal_shapes(generation)})
    return sorted(counts, key=lambda count: abs(math.log(count) - math.log(max(1, chips))))

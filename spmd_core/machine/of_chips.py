"""Topologies for a number of chips."""

import math

from spmd_core.errors import refuse
from spmd_core.machine.chips import CHIPS
from spmd_core.machine.topologies import Topology, legal_shapes

MAX_SLICES = 256


def topology_of_chips(generation: str, chips: int) -> Topology:
    """The topology of that many chips: one slice as long as a legal shape has them, the one with most rings and, among these, the
    shortest sides; beyond, equal slices of the largest shape that divides them. RequestError, with the nearest numbers, where there is none.
    """
    chip = CHIPS[generation]
    whole = [Topology(chip, shape) for shape in legal_shapes(generation)]
    if exact := [topology for topology in whole if topology.chips == chips]:
        return min(exact, key=lambda topology: (-sum(topology.wraps), sum(topology.shape)))
    largest = max(topology.chips for topology in whole)
    if chips > largest:
        for topology in sorted(whole, key=lambda topology: (-topology.chips, sum(topology.shape))):
            if chips % topology.chips == 0 and chips // topology.chips <= MAX_SLICES:
                return Topology(chip, topology.shape, chips // topology.chips)
    near = sorted({topology.chips for topology in whole}, key=lambda count: abs(math.log(count / chips)))[:2]
    counts = [f"{count:,}" for count in sorted(near)] if chips <= largest else [f"a multiple of {largest:,}"]
    raise refuse(f"chips={chips}", f"make up no slices of {chip.title}", f"use {' or '.join(counts)}")


def nearest_topology(generation: str, chips: int) -> Topology:
    """The topology of that many chips, or else the legal single slice nearest to them."""
    try:
        return topology_of_chips(generation, chips)
    except ValueError:
        whole = (Topology(CHIPS[generation], shape) for shape in legal_shapes(generation))
        near = min((topology.chips for topology in whole), key=lambda count: abs(math.log(count / chips)))
        return topology_of_chips(generation, near)

"""Topologies for a number of chips, and the nearest legal topology to a target."""

from spmd_core.base import RequestError
from spmd_core.machine.targets import Target
from spmd_core.machine.topologies import get_topology, nearest_names
from spmd_core.machine.topology import Topology, nearest_counts, topology_of_chips

_FALLBACK = "v5e"  # for a target that is not a TPU; one device per chip


def nearest_of_chips(generation: str, chips: int) -> Topology:
    """The topology of that many chips, or else the legal single slice nearest to them."""
    try:
        return topology_of_chips(generation, chips)
    except RequestError:
        return topology_of_chips(generation, nearest_counts(generation, chips)[0])


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

"""How long a collective takes on a TPU topology by its links, and what is read from data sheets."""

import math
from collections.abc import Sequence

import numpy as np

from spmd_core.experiment import TRANSFERS, Axes, Mesh
from spmd_core.machine import Chip, Topology, mesh_places
from spmd_core.time.cost.links import (
    EXPECTED,
    NOMINAL,
    LinkRates,
    collective_s,
    host_s,
    paths,
    permute_s,
    route_of,
)

Pairs = Sequence[tuple[int, int]]  # positions in the mesh of source and target


def nominal_s(
    topology: Topology,
    order: str,
    kind: str,
    mesh: Mesh,
    axes: Axes,
    nbytes: float,
    pairs: Pairs = (),
    rates: LinkRates = EXPECTED,
) -> float:
    """Seconds of a collective of `nbytes`, the larger of operand and result per device, or of a
    copy from or to the host; a permute without `pairs` goes around a ring. RequestError where the
    mesh does not fill the topology, ValueError of a kind that has no formula.
    """
    if kind in TRANSFERS and not TRANSFERS[kind].between_devices:
        return host_s(topology.chip, nbytes, nominal=rates is NOMINAL)
    if kind == "collective-permute":
        places = mesh_places(topology, [size for _, size in mesh], order).reshape(-1, 5)
        ways = paths(
            topology, pairs or _ring(mesh, axes), [tuple(each) for each in places.tolist()]
        )
        return permute_s(topology, ways, nbytes, rates)
    return collective_s(topology, kind, route_of(topology, mesh, order, axes), nbytes, rates)


def _ring(mesh: Mesh, axes: Axes) -> Pairs:
    """Each device of the first group over these axes to the next; the others are alike."""
    every = np.arange(math.prod(size for _, size in mesh)).reshape([size for _, size in mesh])
    group = every[tuple(slice(None) if name in axes else 0 for name, _ in mesh)].ravel().tolist()
    return list(zip(group, [*group[1:], group[0]], strict=True))


def data_sheet(chip: Chip) -> dict[str, float]:
    """Nominal rates: FLOP/s in bfloat16 (`flops`) and bytes per second of HBM (`hbm`) of a chip,
    the same `of a device`, and bytes per second of an ICI link each way (`link`).
    """
    return {
        "flops": chip.peak_flops,
        "flops of a device": chip.device_flops,
        "hbm": chip.hbm_bandwidth,
        "hbm of a device": chip.device_hbm_bandwidth,
        "link": chip.link_bandwidth,
    }


def link_s(topology: Topology, way: str, nbytes: float) -> float:
    """Seconds of bytes on a link at its nominal rate: between slices where `way` is `dcn`."""
    chip = topology.chip
    return nbytes / (chip.dcn_bandwidth if way == "dcn" else chip.link_bandwidth)

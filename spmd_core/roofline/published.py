"""Published rates of collectives on TPUs, and how far they are from what is predicted."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from spmd_core.base import by_key
from spmd_core.fields import Axes, Mesh
from spmd_core.machine import Target, Topology, get_topology
from spmd_core.time import mesh_collective_s
from spmd_core.workloads import TRANSFERS


@dataclass(frozen=True, slots=True)
class PublishedRate:
    """A collective over axes of a mesh: `rates` are bus bandwidths in bytes per second, by bytes."""

    target: str
    mesh: Mesh
    kind: str
    axes: Axes
    rates: tuple[tuple[int, float], ...]

    @property
    def devices(self) -> int:
        """Devices in a group."""
        return math.prod(size for name, size in self.mesh if name in self.axes)

    def ratios(self) -> tuple[tuple[int, float], ...]:
        """Returns sizes, and how many times as long each took as is predicted."""
        topology = get_topology(self.target)
        factor = TRANSFERS[self.kind].bus_factor(self.devices)
        return tuple(
            (
                size,
                factor
                * size
                / rate
                / mesh_collective_s(topology, "topology", self.kind, self.mesh, self.axes, size),
            )
            for size, rate in self.rates
        )


# tpu-recipes, microbenchmarks; of an all-gather the bytes of its result
PUBLISHED = (
    PublishedRate(
        "tpu:tpu7x:2x2x1",
        (("chip", 4), ("core", 2)),
        "all-gather",
        ("chip",),
        (
            (2**20, 71.8e9),
            (2**22, 129.2e9),
            (2**24, 161.9e9),
            (2**26, 174.8e9),
            (2**28, 178.8e9),
        ),
    ),
    PublishedRate(
        "tpu:v6e:16x16",
        (("x", 16), ("y", 16)),
        "all-reduce",
        ("x", "y"),
        ((606_000_000, 235.8e9),),
    ),
)


Spans = Mapping[str, tuple[float, float]]  # of predicted times, in times as long, by kind


@cache
def published_spans() -> Spans:
    """Returns the least and the most times as long as predicted that a published collective took, by
    kind; none of kinds of which no run was published.
    """
    ratios = by_key((each.kind, ratio) for each in PUBLISHED for _, ratio in each.ratios())
    return {kind: (min(listed), max(listed)) for kind, listed in ratios.items()}


def is_published(topology: Topology) -> bool:
    """Returns True if rates of such links were published: those of a TPU slice."""
    return not topology.chip.is_gpu and topology.slices == 1


def spans_of(topology: Topology) -> Spans:
    """Returns the ranges of predicted times, by what was published of such links and kinds."""
    if not is_published(topology):
        return {}
    return {kind: (min(1.0, low), high) for kind, (low, high) in published_spans().items()}


def expected_spans(target: Target) -> Spans:
    """Returns the ranges of predicted times on a target that is not attached; none elsewhere."""
    return spans_of(get_topology(target)) if target.is_absent else {}

"""Published rates of collectives on TPUs, and how far they are from what is predicted."""

import math
from dataclasses import dataclass
from functools import cache

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


@cache
def published_span() -> tuple[float, float]:
    """Returns the least and the most times as long as predicted that a published one took."""
    ratios = [ratio for each in PUBLISHED for _, ratio in each.ratios()]
    return min(ratios), max(ratios)


def is_published(topology: Topology) -> bool:
    """Returns True if rates of such links were published: those of a TPU slice."""
    return not topology.chip.is_gpu and topology.slices == 1


def span_of(topology: Topology) -> tuple[float, float] | None:
    """Returns the range of a predicted time, in times as long, by what was published of such links;
    None where nothing was.
    """
    low, high = published_span()
    return (min(1.0, low), high) if is_published(topology) else None


def expected_span(target: Target) -> tuple[float, float] | None:
    """Returns the range of a predicted time on a target that is not attached; None elsewhere."""
    return span_of(get_topology(target)) if target.is_absent else None

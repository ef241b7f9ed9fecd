"""How long a collective takes on a torus of links, and behind the switches of GPUs.

Formulas after "How to Scale Your Model", chapter 3 ("Sharded matrices"): with W the bandwidth that
a chip has into a ring
(both directions of a wrapped axis, one of an open one), an all-gather or reduce-scatter of V bytes
takes V (1 - 1/n) / W,
an all-reduce twice that, an all-to-all what crosses the middle of the ring; several axes add their
bandwidths.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from spmd_core.base import ordinal_text
from spmd_core.machine import Chip, Coordinates, Gpu, Topology, mesh_groups, mesh_places
from spmd_core.time.cost.constants import (
    DCN_EFFICIENCY,
    DCN_LATENCY_S,
    DCN_REACHED,
    HOP_LATENCY_S,
    HOST_EFFICIENCY,
    LAUNCH_S,
    LINK_EFFICIENCY,
    SLICE_JITTER,
)
from spmd_core.time.gpu.constants import JITTER
from spmd_core.time.gpu.nccl import (
    Caller,
    Group,
    Over,
    busiest,
    least_over,
    least_s,
    nccl_s,
    pairs_s,
)

NCCL = "nccl"  # what all collectives of GPUs share, beside their links


@dataclass(frozen=True, slots=True)
class LinkRates:
    """Shares of the nominal rates that are reached, and latencies in seconds."""

    link: float = LINK_EFFICIENCY
    dcn: float = DCN_EFFICIENCY
    launch: float = LAUNCH_S
    hop: float = HOP_LATENCY_S
    dcn_latency: float = DCN_LATENCY_S


EXPECTED = LinkRates()
NOMINAL = LinkRates(1.0, 1.0, 0.0, 0.0, 0.0)  # gives the bound that no collective can beat


@dataclass(frozen=True, slots=True)
class AxisSpan:
    """What a group covers of one physical axis: chips, how many of the axis are between neighbors,
    whether the ring closes.
    """

    axis: int
    size: int
    stride: int
    wraps: bool


@dataclass(frozen=True, slots=True)
class Scattered:
    """Groups whose chips form no subgrid, all at work at once: devices of a group in a slice, messages
    over the busiest link where each device sends to the next around a ring, both ways of more than
    two, and where each sends to every other; None of too many.
    """

    size: int
    in_ring: int
    to_all: int | None


@dataclass(frozen=True, slots=True)
class Route:
    """Where a collective runs: spans of physical axes, slices, cores of a chip."""

    spans: tuple[AxisSpan, ...]
    slices: int = 1
    cores: int = 1
    regular: bool = True  # False: the group is no subgrid; its spans are the box around it
    switched: bool = False  # over NVLink switches: a slice is an NVLink domain
    scattered: "Scattered | None" = None  # of one that is no subgrid

    @property
    def inner(self) -> int:
        """Devices of the group in a slice."""
        if self.scattered:
            return self.scattered.size
        return math.prod(span.size for span in self.spans) * self.cores

    @property
    def resources(self) -> tuple[str, ...]:
        """The links that it occupies, as names that contend with one another."""
        if self.switched:  # NCCL runs one after the other
            near, far = ["nvlink"] if self.spans else [], ["network"] if self.slices > 1 else []
            return (*near, *far, NCCL)
        names = [f"ici {'xyz'[span.axis]}{way}" for span in self.spans for way in "+-"]
        return tuple(
            names
            + (["dcn"] if self.slices > 1 else [])
            + (["core"] if not names and self.slices == 1 else [])
        )

    @property
    def words(self) -> str:
        """For reading, e.g. `torus of x (16, ring) and y (16, ring)`."""
        parts = []
        if self.switched:
            return self._switched_words()
        for span in self.spans:
            apart = f", every {ordinal_text(span.stride)} chip" if span.stride > 1 else ""
            parts.append(
                f"{'xyz'[span.axis]} ({span.size}, {'ring' if span.wraps else 'line'}{apart})"
            )
        name = "torus of " if any(span.wraps for span in self.spans) else "mesh of "
        if self.scattered:
            name = f"{self.scattered.size} chips scattered over "
        words = (name if len(parts) > 1 else "") + " and ".join(parts)
        return words + (
            f"{' and ' if words else ''}{self.slices} slices over DCN" if self.slices > 1 else ""
        )

    def _switched_words(self) -> str:
        near = [f"{span.size} GPUs over NVLink" for span in self.spans]
        each = " each" if self.slices > 1 else ""
        far = [f"{self.slices} NVLink domains over the network"] if self.slices > 1 else []
        return " in ".join([f"{words}{each}" for words in near] + far)


def route(
    topology: Topology,
    group: Sequence[int],
    coordinates: Sequence[Coordinates],
    groups: np.ndarray | Sequence[Sequence[int]] = (),
) -> Route:
    """What a group of devices covers of the topology; `groups`: all that communicate at once, of which
    the load of the links results where it is no subgrid.
    """
    places, every = [coordinates[device] for device in group], np.asarray(groups, dtype=int)
    loads = partial(_scattered, topology, every, coordinates) if len(every) else None
    return _route(topology, [*zip(*places, strict=True)], loads)


def _route(
    topology: Topology,
    along: Sequence[Sequence[int]],
    loads: Callable[[int], Scattered] | None,
) -> Route:
    """The same of a group's coordinates `along` each axis; `loads`: the load of the links, of groups
    with so many devices in each slice.
    """
    spans, size = [], len(along[0])
    for axis, length in enumerate(topology.shape):
        values = sorted({*along[axis]})
        if len(values) > 1:
            stride = min(b - a for a, b in itertools.pairwise(values))
            closes = topology.wraps[axis] and len(values) * stride == length
            spans.append(AxisSpan(axis, len(values), stride, closes))
    slices, cores = len({*along[-1]}), len({*along[-2]})
    if topology.chip.is_gpu:
        here = -(-size // slices)
        spans = [AxisSpan(0, here, 1, False)] if here > 1 else []
        return Route(tuple(spans), slices, regular=here * slices == size, switched=True)
    covered = math.prod(span.size for span in spans) * slices * cores
    if covered == size or size % slices or not loads:
        return Route(tuple(spans), slices, cores, covered == size)
    return Route(tuple(spans), slices, cores, False, scattered=loads(size // slices))


_MOST_PAIRS = 1 << 16


def _scattered(
    topology: Topology,
    groups: np.ndarray,
    coordinates: ArrayLike,
    size: int,
) -> Scattered:
    """The load of the links, of groups with `size` devices in each slice."""
    in_slice = np.asarray(coordinates)[groups][..., -1].argsort(axis=1, kind="stable")
    each = np.take_along_axis(groups, in_slice, 1).reshape(-1, size)
    following = np.stack((each, np.roll(each, -1, 1)), -1).reshape(-1, 2)
    ring = following if size == 2 else np.concatenate((following, following[:, ::-1]))
    to_all = None
    if len(each) * size * (size - 1) <= _MOST_PAIRS:
        apart = ~np.eye(size, dtype=bool)
        pairs = np.stack(np.broadcast_arrays(each[:, :, None], each[:, None, :]), -1)[:, apart]
        to_all = paths(topology, pairs.reshape(-1, 2), coordinates).busiest
    return Scattered(size, paths(topology, ring, coordinates).busiest, to_all)


@lru_cache(maxsize=4096)
def route_of(
    topology: Topology, mesh: tuple[tuple[str, int], ...], order: str, axes: tuple[str, ...]
) -> Route:
    """The place of the first group of a collective over mesh axes; the others are alike."""
    places = mesh_places(topology, [size for _, size in mesh], order)
    groups = mesh_groups(places, mesh, axes)
    numbers = np.arange(groups.shape[0] * groups.shape[1]).reshape(groups.shape[:2])
    loads = partial(_scattered, topology, numbers, groups.reshape(-1, 5))
    return _route(topology, groups[0].T.tolist(), loads)


def bandwidth(topology: Topology, where: Route, rates: LinkRates = EXPECTED) -> float:
    """Bytes per second into one chip over its axes: both directions of a ring, one of a line, shared
    by interleaved groups; of scattered chips over the busiest link of a ring.
    """
    link = topology.chip.link_bandwidth * rates.link
    if where.scattered and where.scattered.in_ring:
        ways = 1 if where.scattered.size == 2 else 2
        return link * ways / where.scattered.in_ring
    return sum(link * (2 if span.wraps else 1) / span.stride for span in where.spans)


def hops(spans: Sequence[AxisSpan]) -> int:
    """Links between the two chips of a group that are farthest apart."""
    return sum((span.size // 2 if span.wraps else span.size - 1) * span.stride for span in spans)


def gather_s(topology: Topology, where: Route, nbytes: float, rates: LinkRates = EXPECTED) -> float:
    """Seconds of an all-gather that leaves `nbytes` on each device, or of a reduce-scatter that
    takes in as much.
    """
    if isinstance(topology.chip, Gpu):
        return _of_gpus(topology.chip, "all-gather", where, nbytes, rates)
    inner = where.inner
    local = nbytes / where.slices
    time = rates.launch + hops(where.spans) * rates.hop
    if where.spans:
        time += local * (1 - 1 / inner) / bandwidth(topology, where, rates)
    elif where.cores > 1:
        time += local * (1 - 1 / inner) / topology.chip.device_hbm_bandwidth
    # each slice's part goes to every other slice once, sharded over the chips of a group
    if where.slices > 1:
        time += rates.dcn_latency + nbytes * (1 - 1 / where.slices) / inner / dcn_bandwidth(
            topology, rates
        )
    return time


def reduce_s(topology: Topology, where: Route, nbytes: float, rates: LinkRates = EXPECTED) -> float:
    """Seconds of an all-reduce of `nbytes` per device: reduce-scatter in the slice, all-reduce
    between slices, all-gather.
    """
    inner = where.inner
    one_slice = replace(where, slices=1)
    time = (
        2 * gather_s(topology, one_slice, nbytes, rates) - rates.launch
        if inner > 1
        else rates.launch
    )
    if where.slices > 1:
        time += rates.dcn_latency + 2 * (nbytes / inner) * (1 - 1 / where.slices) / dcn_bandwidth(
            topology, rates
        )
    return time


def exchange_s(
    topology: Topology, where: Route, nbytes: float, rates: LinkRates = EXPECTED
) -> float:
    """Seconds of an all-to-all of `nbytes` per device: what crosses the middle of the longest axis,
    over the links there.

    Of a group's data, half starts on either side of a plane through an axis and half of that
    crosses it: size x nbytes / 4 per row of chips, over one link of a line and two of a ring.
    """
    link = topology.chip.link_bandwidth * rates.link
    time = rates.launch + hops(where.spans) * rates.hop
    if where.scattered and where.scattered.to_all is not None:
        time += where.scattered.to_all * nbytes / where.scattered.size / link
    else:
        crossing = (
            span.size * nbytes / (8 if span.wraps else 4) / (link / span.stride)
            for span in where.spans
        )
        time += max(crossing, default=0.0)
    if not where.spans and where.cores > 1:
        time += nbytes * (1 - 1 / where.cores) / topology.chip.device_hbm_bandwidth
    if where.slices > 1:
        time += rates.dcn_latency + nbytes * (1 - 1 / where.slices) / dcn_bandwidth(topology, rates)
    return time


def host_s(chip: Chip, nbytes: float, *, nominal: bool = False) -> float:
    """Seconds of a device's bytes to or from host memory, while all devices of the chip move as
    many; `nominal`, at the data sheet's rate.
    """
    share = 1.0 if nominal else HOST_EFFICIENCY
    return nbytes / (chip.device_host_bandwidth * share)


def dcn_bandwidth(topology: Topology, rates: LinkRates = EXPECTED) -> float:
    """Bytes per second out of a slice, per chip: as measured where that is published."""
    chip = topology.chip
    reached = DCN_REACHED.get(chip.generation) if rates is EXPECTED else None
    return reached or chip.dcn_bandwidth * rates.dcn


Hop = tuple[Coordinates, int, int]  # a link: from the device there, along an axis, +1 or -1


@dataclass(frozen=True, slots=True)
class Paths:
    """The ways of a permute's messages: those over the busiest link, hops of the longest, links
    used, whether one leaves its slice.
    """

    busiest: int
    longest: int
    used: tuple[str, ...]
    crosses_slices: bool
    between: int = 0  # of GPUs: messages over the busiest network card
    moved: bool = True  # whether any device sends to another


def hops_between(topology: Topology, source: Coordinates, target: Coordinates) -> list[Hop]:
    """The links of the shortest path between two devices of a slice, axis after axis."""
    here, hops = list(source), []
    for axis, length in enumerate(topology.shape):
        wraps = topology.wraps[axis]
        ahead = (target[axis] - here[axis]) % length if wraps else target[axis] - here[axis]
        steps = ahead - length if wraps and ahead > length / 2 else ahead
        sign = 1 if steps > 0 else -1
        for _ in range(abs(steps)):
            hops.append((tuple(here), axis, sign))
            here[axis] = (here[axis] + sign) % length
    return hops


def paths(topology: Topology, pairs: ArrayLike, coordinates: ArrayLike) -> Paths:
    """Where the messages of (source, target) pairs, [n, 2], go between devices at coordinates,
    [devices, 5]: each on its shortest path, axis after axis.
    """
    places, ends = np.asarray(coordinates), np.asarray(pairs, dtype=int).reshape(-1, 2)
    apart = places[ends[:, 0], -1] != places[ends[:, 1], -1]
    if topology.chip.is_gpu:
        return _through_switches(ends, apart)
    here, there = (places[each] for each in ends[~apart].T)
    busiest, hops, used = 0, np.zeros(len(here), dtype=int), ["dcn"] if apart.any() else []
    for axis, (length, wraps) in enumerate(zip(topology.shape, topology.wraps, strict=True)):
        steps = there[:, axis] - here[:, axis]
        if wraps:  # half way around goes ahead
            steps = length // 2 - (length // 2 - steps) % length
        hops += np.abs(steps)
        for sign, way in ((1, "+"), (-1, "-")):
            loads, left = np.zeros(places.max(0) + 1, dtype=int), steps * sign
            while len(moving := np.flatnonzero(left > 0)):
                np.add.at(loads, tuple(here[moving].T), 1)
                here[moving, axis] = (here[moving, axis] + sign) % length
                left[moving] -= 1
            busiest = max(busiest, int(loads.max()))
            used += [f"ici {'xyz'[axis]}{way}"] * bool(loads.any())
    return Paths(
        busiest,
        int(hops.max(initial=0)),
        tuple(sorted(used)),
        bool(apart.any()),
        moved=bool((ends[:, 0] != ends[:, 1]).any()),
    )


def _through_switches(ends: np.ndarray, apart: np.ndarray) -> Paths:
    """Messages of GPUs: within a domain through its switch, else over a network card each way."""
    moved = ends[:, 0] != ends[:, 1]
    near, far = ends[moved & ~apart], ends[apart]
    used = ["nvlink"] * bool(len(near)) + ["network"] * bool(len(far))
    longest = int(moved.any())
    return Paths(busiest(near), longest, tuple(used), bool(len(far)), busiest(far), bool(longest))


@lru_cache(maxsize=256)
def paths_along(
    topology: Topology, mesh: tuple[tuple[str, int], ...], order: str, axis: str | None = None
) -> Paths:
    """The ways from every device to the next one along a mesh axis; without one, around a ring of all
    devices, in the order of the mesh.
    """
    sizes = [size for _, size in mesh]
    places = mesh_places(topology, sizes, order).reshape(-1, 5)
    numbers = np.arange(len(places)).reshape(sizes)
    number = None if axis is None else [name for name, _ in mesh].index(axis)
    following = np.roll(numbers, -1, number)
    return paths(topology, np.stack((numbers.ravel(), following.ravel()), axis=1), places)


def permute_s(topology: Topology, ways: Paths, nbytes: float, rates: LinkRates = EXPECTED) -> float:
    """Seconds of a collective-permute whose messages have `nbytes`: the busiest link's, or the
    network's between slices; 0 where each device keeps its own.
    """
    if not ways.moved:
        return 0.0
    if isinstance(topology.chip, Gpu):
        near, far = ways.busiest, ways.between
        return pairs_s(topology.chip, near, far, nbytes, nominal=rates is NOMINAL)
    time = (
        rates.launch
        + ways.longest * rates.hop
        + ways.busiest * nbytes / (topology.chip.link_bandwidth * rates.link)
    )
    return (
        max(time, rates.dcn_latency + nbytes / dcn_bandwidth(topology, rates))
        if ways.crosses_slices
        else time
    )


def collective_s(
    topology: Topology,
    kind: str,
    where: Route,
    nbytes: float,
    rates: LinkRates = EXPECTED,
    caller: Caller = "xla",
) -> float:
    """Seconds of a collective of `nbytes`, the larger of operand and result per device; `caller`:
    of GPUs' collectives.
    """
    if isinstance(topology.chip, Gpu):
        return _of_gpus(topology.chip, kind, where, nbytes, rates, caller)
    if kind in ("all-gather", "reduce-scatter", "collective-broadcast"):
        return gather_s(topology, where, nbytes, rates)
    if kind == "all-reduce":
        return reduce_s(topology, where, nbytes, rates)
    if kind in ("all-to-all", "ragged-all-to-all"):
        return exchange_s(topology, where, nbytes, rates)
    raise ValueError(f"collective {kind!r} has no formula")


def _of_gpus(
    gpu: Gpu, kind: str, where: Route, nbytes: float, rates: LinkRates, caller: Caller = "xla"
) -> float:
    group = Group(math.prod(span.size for span in where.spans), where.slices)
    if group.count < 2:
        return 0.0
    if rates is NOMINAL:
        return least_s(gpu, kind, group, nbytes)
    return nccl_s(gpu, kind, group, nbytes, caller)


def nominal_over(topology: Topology, kind: str, where: Route) -> Over | None:
    """Returns the links of GPUs over which a collective takes longest by the data sheet; None of TPUs,
    whose bytes are spread over all links.
    """
    if not isinstance(topology.chip, Gpu):
        return None
    group = Group(math.prod(span.size for span in where.spans), where.slices)
    return least_over(topology.chip, kind, group, 1.0) if group.count > 1 else None


def straggling(topology: Topology) -> float:
    """The share of a step that is waited for the slowest slice, or host of GPUs; 0 for one."""
    if topology.chip.is_gpu:
        return JITTER * math.log2(topology.slices)
    return _slowest_slice(topology.slices)


@cache
def _slowest_slice(slices: int) -> float:
    """The share of a step that is waited for the slowest slice, 0 for one.

    Steps of one slice vary; of n that are drawn from a normal distribution, the slowest is expected
    at
    its quantile (n - 3/8) / (n + 1/4) (Blom, "Statistical estimates and transformed
    beta-variables",
    1958). With the jitter of the constants 3 % for 2 slices, 8 % for 8 and 11 % for 32.
    """
    if slices < 2:
        return 0.0
    return SLICE_JITTER * NormalDist().inv_cdf((slices - 0.375) / (slices + 0.25))

"""Bytes on each link of one collective, by the algorithm that the cost model assumes.

With V the bytes of a collective (the larger of operand and result per device) over n devices: an
all-gather or reduce-scatter moves V (1 - 1/n) into every device, an all-reduce twice that. On a
torus the axes share it in proportion to their bandwidth; a ring sends half in each direction, a
line in both directions at once, so that the link at its end carries most. An all-to-all sends V / n
to every device along the shortest path. Where the links are unknown, devices pass shards around a
ring in their order. Formulas as in `spmd_core.time.cost.links`, whose seconds are the busiest
link's bytes over its rate.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

from spmd_core.base import by_key
from spmd_core.machine import Coordinates, Topology
from spmd_core.pictures.arrows.placed import Placed
from spmd_core.time import AxisSpan, hops_between, route

Group = tuple[int, ...]  # positions in `mesh.devices`; of a permute, a pair of source and target
# (way, from, to): over a torus's link ("x+", ...), the network ("dcn"), within a chip ("chip"),
# through the switch of an NVLink domain ("nvlink"), or where nothing is known of links (""); ends
# are chips (x, y, z, slice) of a torus, else positions
Key = tuple[str, Coordinates, Coordinates]
EXCHANGES = ("all-to-all", "ragged-all-to-all")
PERMUTE = "collective-permute"
SEND, SEND_ALL = "send", "send to all"  # between slices: parts of a sum; values


@lru_cache(maxsize=256)
def unit_flows(placed: Placed, kind: str, groups: tuple[Group, ...]) -> Mapping[Key, float]:
    """Bytes on each link, for a collective of one byte: all grow with the bytes alike."""
    flows: defaultdict[Key, float] = defaultdict(float)
    for group in groups:
        for key, share in _of_group(placed, kind, group):
            if share > 0:
                flows[key] += share
    return dict(flows)


def _of_group(placed: Placed, kind: str, group: Group) -> Iterable[tuple[Key, float]]:
    if kind == PERMUTE:
        source, target = group
        return _message(placed, source, target, 1.0) if source != target else ()
    if len(group) < 2:
        return ()
    if placed.topology is None or placed.places is None:
        return _around(placed, kind, group)
    if kind in (SEND, SEND_ALL):
        count = len(group)
        share = 2 * (1 - 1 / count) if kind == SEND else count - 1
        return _between_slices(placed, group, share)
    where = route(placed.topology, group, placed.places)
    if where.switched or not where.regular:
        return _around(placed, kind, group)
    return _on_torus(placed, placed.topology, kind, group)


def _around(placed: Placed, kind: str, group: Group) -> Iterator[tuple[Key, float]]:
    """A ring in the group's own order; of an all-to-all, each to each."""
    count = len(group)
    if kind in EXCHANGES:
        for source in group:
            for target in group:
                if source != target:
                    yield from _message(placed, source, target, 1 / count)
        return
    share = _times(kind) * (1 - 1 / count)
    for at, source in enumerate(group):
        yield from _message(placed, source, group[(at + 1) % count], share)


def _times(kind: str) -> int:
    """How often the data goes around: an all-reduce scatters sums, then gathers them."""
    return 2 if kind in ("all-reduce", SEND) else 1


def _message(
    placed: Placed,
    source: int,
    target: int,
    share: float,
) -> Iterator[tuple[Key, float]]:
    if placed.topology is None or placed.places is None:
        yield ("", (source,), (target,)), share
        return
    here, there = placed.places[source], placed.places[target]
    if here[4] != there[4]:
        yield ("dcn", _chip(here), _chip(there)), share
    elif placed.topology.chip.is_gpu:
        yield ("nvlink", _chip(here), _chip(there)), share
    elif _chip(here) == _chip(there):
        yield ("chip", (source,), (target,)), share
    else:
        for at, axis, sign in hops_between(placed.topology, here, there):
            yield _hop(placed.topology, _chip(at), axis, sign), share


def _chip(place: Coordinates) -> Coordinates:
    return (*place[:3], place[4])


def _hop(topology: Topology, chip: Coordinates, axis: int, sign: int) -> Key:
    there = list(chip)
    there[axis] = (there[axis] + sign) % topology.shape[axis]
    return f"{'xyz'[axis]}{'+' if sign > 0 else '-'}", chip, tuple(there)


def _on_torus(
    placed: Placed,
    topology: Topology,
    kind: str,
    group: Group,
) -> Iterator[tuple[Key, float]]:
    """A group that fills a subgrid: on each axis that it spans, within chips, between slices."""
    places = placed.places or ()
    where = route(topology, group, places)
    chips = tuple({_chip(places[at]) for at in group})
    inner = len(group) // where.slices
    local = 1.0 if kind in EXCHANGES else _times(kind) * (1 - 1 / inner)
    local /= where.slices if kind not in (*EXCHANGES, "all-reduce") else 1
    rates = {span.axis: (2 if span.wraps else 1) / span.stride for span in where.spans}
    for span in where.spans:
        part = local * rates[span.axis] / sum(rates.values())
        for row in _rows(chips, span.axis):
            flow = (
                _exchanged(topology, span, row)
                if kind in EXCHANGES
                else _passed(topology, span, row, part)
            )
            yield from flow
    if where.cores > 1:
        yield from _in_chip(
            places, group, local if not where.spans else local * (1 - 1 / where.cores)
        )
    if where.slices > 1:
        share = 1 - 1 / where.slices
        if kind not in EXCHANGES:
            share *= _times(kind) / inner
        yield from _between_slices(placed, group, share)


def _rows(chips: Iterable[Coordinates], axis: int) -> list[list[Coordinates]]:
    rows = by_key((chip[:axis] + chip[axis + 1 :], chip) for chip in chips)
    return [sorted(row) for row in rows.values()]


def _passed(
    topology: Topology,
    span: AxisSpan,
    row: Sequence[Coordinates],
    part: float,
) -> Iterator[tuple[Key, float]]:
    """Shards passed from neighbor to neighbor: every chip of the row receives `part`."""
    count = len(row)
    for at, sign, chip, target in _neighbours(row, span):
        behind = at + 1 if sign > 0 else count - at  # chips whose shards come this way
        share = part / 2 if span.wraps else part * behind / (count - 1)
        yield from _strides(topology, span, chip, target, sign, share)


def _exchanged(
    topology: Topology,
    span: AxisSpan,
    row: Sequence[Coordinates],
) -> Iterator[tuple[Key, float]]:
    """1 / count of a byte from every chip to every other, forwarded along the row; on a ring, half
    goes in each direction.
    """
    count = len(row)
    steps = sum(min(step, count - step) for step in range(1, count)) / 2
    for at, sign, chip, target in _neighbours(row, span):
        behind = at + 1 if sign > 0 else count - at
        crossing = steps if span.wraps else behind * (count - behind)
        yield from _strides(topology, span, chip, target, sign, crossing / count)


def _neighbours(
    row: Sequence[Coordinates],
    span: AxisSpan,
) -> Iterator[tuple[int, int, Coordinates, Coordinates]]:
    """(place, +1 or -1, chip, the next one that way) of every chip of a row that has one."""
    for at, chip in enumerate(row):
        for sign in (1, -1):
            if span.wraps or 0 <= at + sign < len(row):
                yield at, sign, chip, row[(at + sign) % len(row)]


def _strides(
    topology: Topology,
    span: AxisSpan,
    chip: Coordinates,
    target: Coordinates,
    sign: int,
    share: float,
) -> Iterator[tuple[Key, float]]:
    """The links to the next chip of the group, which may be several chips further on."""
    while chip != target:
        key = _hop(topology, chip, span.axis, sign)
        yield key, share
        chip = key[2]


def _in_chip(
    places: Sequence[Coordinates],
    group: Group,
    share: float,
) -> Iterator[tuple[Key, float]]:
    for devices in by_key((_chip(places[position]), position) for position in group).values():
        for at, source in enumerate(devices):
            yield ("chip", (source,), (devices[(at + 1) % len(devices)],)), share


def _between_slices(placed: Placed, group: Group, share: float) -> Iterator[tuple[Key, float]]:
    """`share` of a byte out of every device, to those at its place of the other slices."""
    places = placed.places or ()
    for devices in by_key((places[position][:4], position) for position in group).values():
        for source in devices:
            for target in devices:
                if source != target:
                    yield (
                        ("dcn", _chip(places[source]), _chip(places[target])),
                        share / (len(devices) - 1),
                    )

"""The bytes that collectives send over every link, and the busiest link; and which devices take
part in a collective.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spmd_core.facts import Collective
from spmd_core.pictures.arrows.flows import (
    EXCHANGES,
    PERMUTE,
    SEND,
    SEND_ALL,
    Group,
    Key,
    unit_flows,
)
from spmd_core.pictures.arrows.placed import Placed
from spmd_core.program import (
    BETWEEN_SLICES,
    HloError,
    axes_of,
    counterparts,
    groups_of,
    parse_module,
    sites,
)
from spmd_core.time import route

Groups = tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class ChipLink:
    """A link in one direction: `source` and `target` are positions in `mesh.devices` (of a chip
    with several devices, the first). `way` as in `flows.Key`; `axes` are the mesh axes of most of
    its bytes.
    """

    source: int
    target: int
    way: str
    nbytes: float
    axes: tuple[str, ...] = ()
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of some collectives. `links` are those with any bytes, the busiest first.

    `unread` counts collectives of unknown devices, `unknown_count` those of unknown execution count
    (they count once), `one_device` those with groups of one device, `as_listed` those whose devices
    form no subgrid and pass shards around a ring in their listed order.
    """

    links: tuple[ChipLink, ...] = ()
    unread: int = 0
    unknown_count: int = 0
    one_device: int = 0
    as_listed: int = 0

    @property
    def busiest(self) -> ChipLink | None:
        """The link with most bytes; None if nothing is sent."""
        return self.links[0] if self.links else None

    @property
    def as_busy(self) -> int:
        """How many other links carry as much as the busiest, within one in a thousand."""
        least = 0.999 * self.links[0].nbytes if self.links else 0.0
        return max(0, sum(link.nbytes >= least for link in self.links) - 1)


def traffic(
    placed: Placed,
    collectives: Sequence[Collective],
    text: str | None = None,
    every_time: bool = True,
) -> Traffic:
    """The total traffic of these collectives, each counted as often as it runs (`every_time`) or
    once.

    `text` is the compiled program, which names the groups of more than 64 devices.
    """
    loads: defaultdict[Key, float] = defaultdict(float)
    most: dict[Key, tuple[float, Collective]] = {}
    counts = Counter[str]()
    for each in collectives:
        groups = groups_in_mesh(each, placed, text)
        if groups is None:
            counts["unread"] += 1
            continue
        counts.update(_counts(each, groups, placed))
        times = each.times if every_time else 1
        for key, share in unit_flows(placed, kind_of_flow(each), groups).items():
            nbytes = share * each.bytes * times
            loads[key] += nbytes
            if nbytes > most.get(key, (0.0, each))[0]:
                most[key] = nbytes, each
    links = [_link(placed, key, nbytes, most[key][1]) for key, nbytes in loads.items() if nbytes]
    # (rounded to bytes: sums in another order differ by less)
    links.sort(key=lambda link: (-round(link.nbytes), link.source, link.target, link.way))
    return Traffic(tuple(links), counts["unread"], counts["count"], counts["one"], counts["listed"])


def _counts(each: Collective, groups: Groups, placed: Placed) -> Iterable[str]:
    if each.count is None:
        yield "count"
    if all(len(set(group)) < 2 for group in groups):
        yield "one"
    elif each.kind not in (PERMUTE, *EXCHANGES) and not _regular(placed, groups):
        yield "listed"


@lru_cache(maxsize=256)
def _regular(placed: Placed, groups: Groups) -> bool:
    topology, places = placed.topology, placed.places
    return (
        topology is None
        or places is None
        or all(route(topology, tuple(dict.fromkeys(group)), places).regular for group in groups)
    )


def _link(placed: Placed, key: Key, nbytes: float, most: Collective) -> ChipLink:
    way, here, there = key
    if way in ("", "chip"):
        source, target = here[0], there[0]
    else:
        source, target = placed.chips[here][0], placed.chips[there][0]
    return ChipLink(source, target, way, nbytes, most.axes, most.kind)


def kind_of_flow(collective: Collective) -> str:
    """The algorithm of its bytes: its kind, and of a transfer between slices what is sent."""
    if collective.kind == SEND and collective.asked not in ("all-reduce", None):
        return SEND_ALL
    return collective.kind


def groups_in_mesh(
    collective: Collective, placed: Placed, text: str | None = None
) -> Groups | None:
    """Groups by position in `mesh.devices` (of a permute, pairs of source and target).

    A result names devices by JAX's numbers, up to 64 of them; beyond, its program's `text` does,
    whose order is the mesh's. None if neither has them, or if the text has other axes than the
    result.
    """
    if collective.groups is not None:
        if any(number not in placed.positions for group in collective.groups for number in group):
            return None
        return _on_every_slice(
            tuple(
                tuple(placed.positions[number] for number in group) for group in collective.groups
            ),
            placed,
        )
    if collective.kind == BETWEEN_SLICES:
        return _tuples(counterparts(placed.places or ()))
    groups = (
        _of_text(text, len(placed.numbers), _slices(placed)).get(collective.name or "")
        if text
        else None
    )
    if groups is None:
        return None
    axes = axes_of(np.array(groups, np.int64), placed.mesh)
    return _on_every_slice(groups, placed) if axes == collective.axes else None


def _slices(placed: Placed) -> int:
    """Of TPUs, whose programs talk between slices by other means; GPUs have one program for all."""
    topology = placed.topology
    return topology.slices if topology and not topology.chip.is_gpu else 1


def _on_every_slice(groups: Groups, placed: Placed) -> Groups:
    """The groups of one slice, repeated on all slices: the compiled program names only the devices
    of the first slice.
    """
    places = placed.places or ()
    if _slices(placed) < 2 or len({places[at][4] for group in groups for at in group}) != 1:
        return groups
    at_place = {place: at for at, place in enumerate(places)}
    return tuple(
        tuple(at_place[(*places[at][:4], number)] for at in group)
        for number in range(_slices(placed))
        for group in groups
    )


@lru_cache(maxsize=8)
def _of_text(text: str, device_count: int, slices: int) -> Mapping[str, Groups]:
    """Instruction -> groups; nothing of a program that cannot be read or is for other devices."""
    try:
        module = parse_module(text)
        count = module.device_count
        if count not in (device_count, device_count // slices):
            return {}
        return {
            site.start.outer.name: _tuples(groups_of(site.start.inner, count))
            for site in sites(module)
            if site.start.kind != BETWEEN_SLICES
        }
    except HloError:
        return {}


def _tuples(groups: np.ndarray) -> Groups:
    return tuple(tuple(group) for group in groups.tolist())


def follows_axes(groups: Groups, collective: Collective, placed: Placed) -> bool:
    """Whether the groups are all that vary along the collective's mesh axes; a permute's pairs may
    be any along them. False: its devices have to be listed.
    """
    sizes = dict(placed.mesh)
    if not collective.axes or not set(collective.axes) <= set(sizes):
        return False
    if collective.kind == PERMUTE:
        return True
    count = int(np.prod([sizes[axis] for axis in collective.axes]))
    return all(len(set(group)) == count for group in groups)

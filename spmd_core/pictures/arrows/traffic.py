"""The bytes that collectives send over every link, and the busiest link."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from spmd_core.pictures.arrows.flows import EXCHANGES, PERMUTE, Key, unit_flows
from spmd_core.pictures.arrows.groups import Groups, groups_in_mesh, kind_of_flow
from spmd_core.pictures.arrows.placed import Placed
from spmd_core.results import Collective
from spmd_core.time import route


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

    @property
    def total(self) -> float:
        """Bytes on all links together."""
        return sum(link.nbytes for link in self.links)


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
    """Whether every group fills a subgrid of the topology."""
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

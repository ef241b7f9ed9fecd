"""Where devices and arrows go in a picture: nodes in rows and columns of panels.

A torus is drawn plane by plane, with chips at their coordinates; devices without coordinates at
their position in the mesh. Beyond 256 nodes a node is a host; traffic within a host is then not an
arrow, and is summed as `inside`.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from spmd_core.base import by_key, firsts_by_key
from spmd_core.machine import Gpu
from spmd_core.pictures.arrows.placed import HOST_CHIPS, Placed
from spmd_core.pictures.arrows.traffic import ChipLink, Traffic

MOST_NODES = 256
MOST_LINE = 16  # devices of one mesh axis side by side
GAP = 1.6  # between panels, in steps between nodes
_STUB = 0.62  # of an arrow that leaves its panel, or wraps around the torus
_SLANT = 0.44  # the same across planes, aslant


@dataclass(frozen=True, slots=True)
class Node:
    """A chip, a device or a host at `column` and `row`, counted over all panels."""

    label: str
    column: float
    row: float
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from (column, row) to another, in the picture's units; `link` is the link that it
    shows.
    """

    start: tuple[float, float]
    end: tuple[float, float]
    link: ChipLink


@dataclass(frozen=True, slots=True)
class Panel:
    """A plane of the torus, or of the mesh: its name, and the corner that it begins at."""

    name: str
    column: float
    row: float


@dataclass(frozen=True, slots=True)
class ArrowScene:
    """A picture, `columns` wide and `rows` tall. `inside` are bytes within the hosts that are drawn
    as one; `planes` of `planes_in_all` are drawn.
    """

    nodes: tuple[Node, ...]
    arrows: tuple[Arrow, ...]
    panels: tuple[Panel, ...]
    columns: float
    rows: float
    by_host: bool = False
    inside: float = 0.0
    planes: int = 1
    planes_in_all: int = 1


@dataclass(frozen=True, slots=True)
class _Spot:
    """The position of a device: its plane, and its column and row there."""

    plane: tuple[int, ...]
    column: int
    row: int


def scene(placed: Placed, traffic: Traffic) -> ArrowScene:
    """The picture of the traffic of some collectives."""
    by_host = len(set(_spots(placed, False))) > MOST_NODES
    spots = _spots(placed, by_host)
    links, inside = _joined(placed, traffic.links, spots) if by_host else (traffic.links, 0.0)
    size = max(spot.column for spot in spots) + 1, max(spot.row for spot in spots) + 1
    planes = _planes(spots, traffic.links, max(1, MOST_NODES // (size[0] * size[1])))
    everywhere = len({spot.plane for spot in spots})
    across = _across(len(planes), size)
    corners = {
        plane: ((at % across) * (size[0] + GAP - 1), (at // across) * (size[1] + GAP - 1))
        for at, plane in enumerate(planes)
    }
    nodes = tuple(_nodes(placed, spots, corners))
    at = {position: node for node in nodes for position in node.positions}
    arrows = tuple(
        arrow
        for link in links
        if link.source in at
        for arrow in [_arrow(link, at[link.source], at.get(link.target), placed)]
        if arrow is not None
    )
    panels = tuple(Panel(_plane_name(placed, plane), *corner) for plane, corner in corners.items())
    down = -(-len(planes) // across)
    return ArrowScene(
        nodes,
        arrows,
        panels,
        across * (size[0] + GAP - 1) - GAP + 1,
        down * (size[1] + GAP - 1) - GAP + 1,
        by_host,
        inside,
        len(planes),
        everywhere,
    )


def _spots(placed: Placed, by_host: bool) -> list[_Spot]:
    if placed.topology is None or placed.places is None:
        return _in_mesh(placed)
    chip = placed.topology.chip
    of_host = chip.host_chips if isinstance(chip, Gpu) else HOST_CHIPS
    step = of_host if by_host else 1
    return [_Spot((number, z), x // step, y // step) for x, y, z, _, number in placed.places]


def _in_mesh(placed: Placed) -> list[_Spot]:
    """By place in the mesh: the last axis across, the one before down, the others as planes."""
    sizes = [size for _, size in placed.mesh if size > 1] or [1]
    if len(sizes) == 1:
        line = _line(sizes[0])
        return [_Spot((0,), at % line, at // line) for at in range(sizes[0])]
    columns, rows = sizes[-1], sizes[-2]
    return [
        _Spot((at // (rows * columns),), at % columns, at // columns % rows)
        for at in range(math.prod(sizes))
    ]


def _line(size: int) -> int:
    """The number of devices of a long axis that are drawn side by side."""
    if size <= MOST_LINE // 2:
        return size
    return next((line for line in range(MOST_LINE, 3, -1) if size % line == 0), MOST_LINE)


def _joined(
    placed: Placed,
    links: Iterable[ChipLink],
    spots: list[_Spot],
) -> tuple[tuple[ChipLink, ...], float]:
    """Links between hosts, and the bytes that stay within one."""
    first = firsts_by_key((spot, position) for position, spot in enumerate(spots))
    sums: defaultdict[tuple[int, int, str], float] = defaultdict(float)
    most: dict[tuple[int, int, str], ChipLink] = {}
    inside = 0.0
    for link in links:
        source, target = first[spots[link.source]], first[spots[link.target]]
        if source == target:
            inside += link.nbytes
            continue
        key = source, target, link.way
        sums[key] += link.nbytes
        most.setdefault(key, link)  # (the busiest comes first)
    joined = [
        ChipLink(*key, nbytes, most[key].axes, most[key].kind) for key, nbytes in sums.items()
    ]
    return tuple(sorted(joined, key=lambda link: -link.nbytes)), inside


def _planes(spots: list[_Spot], links: tuple[ChipLink, ...], most: int) -> list[tuple[int, ...]]:
    """The planes that are drawn: all, or as many as fit, starting with that of the busiest link."""
    every = sorted({spot.plane for spot in spots})
    if len(every) <= most:
        return every
    begin = every.index(spots[links[0].source].plane) if links else 0
    begin = min(begin, len(every) - most)
    return every[begin : begin + most]


def _across(planes: int, size: tuple[int, int]) -> int:
    """The number of planes side by side, so that the picture is about twice as wide as tall."""
    if planes == 1:
        return 1
    wish = math.sqrt(planes * 2 * (size[1] + GAP) / (size[0] + GAP))
    room = max(2, int(12 // (size[0] + GAP - 1)))
    most = max(1, min(planes, round(wish), room))
    return next((across for across in (most, most - 1) if across and planes % across == 0), most)


def _nodes(
    placed: Placed,
    spots: list[_Spot],
    corners: dict[tuple[int, ...], tuple[float, float]],
) -> Iterator[Node]:
    held = by_key((spot, position) for position, spot in enumerate(spots))
    for spot, positions in held.items():
        if spot.plane in corners:
            left, top = corners[spot.plane]
            numbers = sorted(placed.numbers[at] for at in positions)
            label = ",".join(map(str, numbers[:2])) + ("…" if len(numbers) > 2 else "")
            yield Node(label, left + spot.column, top + spot.row, tuple(positions))


def _arrow(link: ChipLink, source: Node, target: Node | None, placed: Placed) -> Arrow | None:
    """An arrow from node to node; a link that wraps around, or leads to another plane or slice, is
    a stub.
    """
    x, y = source.column, source.row
    stub = {
        "x+": (_STUB, 0.0),
        "x-": (-_STUB, 0.0),
        "y+": (0.0, _STUB),
        "y-": (0.0, -_STUB),
        "z+": (_SLANT, -_SLANT),
        "z-": (-_SLANT, _SLANT),
        "dcn": (_SLANT, _SLANT),
    }
    if link.way not in ("z+", "z-", "dcn"):
        if target is None or target is source:
            return None
        far = abs(target.column - x) + abs(target.row - y) > 1.01
        if link.way not in stub or not far:
            return Arrow((x, y), (target.column, target.row), link)
    aside = stub[link.way]
    return Arrow((x, y), (x + aside[0], y + aside[1]), link)


def _plane_name(placed: Placed, plane: tuple[int, ...]) -> str:
    topology = placed.topology
    if topology is not None and placed.places is not None:
        number, z = plane
        parts = [f"{topology.chip.slice_word} {number}"] if topology.slices > 1 else []
        parts += [f"z={z}"] if len(topology.shape) > 2 else []
        return ", ".join(parts)
    outer = [(name, size) for name, size in placed.mesh if size > 1][:-2]
    rest, parts = plane[0], []
    for name, size in reversed(outer):
        rest, at = divmod(rest, size)
        parts.append(f"{name}={at}")
    return ", ".join(reversed(parts))

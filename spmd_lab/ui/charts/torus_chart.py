"""The picture of a mesh on its torus: chips, links with those that wrap around, and colors by the
coordinate along one mesh axis.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from spmd_core.base import numbered
from spmd_core.fields import Axes
from spmd_core.machine import Topology, mesh_groups, mesh_places
from spmd_lab.ui.charts.base import INK, Row, Spec, category, hover, layer, layered, quantity

MAX_CHIPS, MAX_LAYERS = 1024, 8
LONGEST_PATH = 64  # of a group whose order is drawn
_STUB = 0.62  # length of a link that wraps around, in steps between chips
# from the first to the last place
_SHADES = ["#4662d7", "#36aaf9", "#1ae4b6", "#72e05e", "#c7d034", "#faba39", "#f66b19", "#cb2a04"]
_LINK, _WRAP = "link", "wraps around"
_LINK_COLORS = {_LINK: "#9aa1ab", _WRAP: "#d9730d"}
_NUMBER = {"type": "text", "fontSize": 12, "fontWeight": 600, "color": "#16202e"}
_DISK = {
    "type": "circle",
    "size": 260,
    "color": "#ffffff",
    "opacity": 0.85,
}  # legible on each color
_NUMBERED_PX = 22.0  # of a step between chips: less has no room for a number
_LAYER_GAP = 1.6  # between the last chip of a layer and the first of the next, in steps


def layers_drawn(topology: Topology) -> int:
    """How many layers along z are drawn; 1 of a flat topology."""
    if len(topology.shape) < 3:
        return 1
    x, y, z = topology.shape
    return max(1, min(z, MAX_LAYERS, MAX_CHIPS // (x * y)))


@dataclass(frozen=True, slots=True)
class _Drawing:
    """The layers along z of one slice, side by side in lines of `columns`."""

    topology: Topology
    layers: int
    columns: int

    @property
    def size(self) -> tuple[float, float]:
        """Width and height, in steps between chips."""
        x, y = self.topology.shape[:2]
        lines = -(-self.layers // self.columns)
        return self.columns * (x + _LAYER_GAP) - 1.2, lines * (y + _LAYER_GAP) - 1.2

    def corner(self, layer: int) -> tuple[float, float]:
        """Where a layer's first chip is."""
        x, y = self.topology.shape[:2]
        line, column = divmod(layer, self.columns)
        return column * (x + _LAYER_GAP), line * (y + _LAYER_GAP)


def _drawing(topology: Topology) -> _Drawing:
    x, y = topology.shape[:2]
    layers = layers_drawn(topology)
    columns = round(math.sqrt(layers * 2 * (y + 1) / (x + 1)))
    return _Drawing(topology, layers, min(layers, max(1, columns)))


def torus_chart(
    topology: Topology, mesh: Sequence[tuple[str, int]], axis: str, order: str, width_px: int
) -> Spec:
    """Chips of one slice, layers of a cube side by side, colored by the coordinate along mesh axis
    `axis`; one group of that axis is joined.
    """
    names, sizes = [name for name, _ in mesh], [size for _, size in mesh]
    places = mesh_places(topology, sizes, order)
    at = np.indices(sizes)[names.index(axis)]
    return _chart(
        topology, places, at, mesh_groups(places, mesh, (axis,))[0], width_px, "in the mesh"
    )


def groups_chart(
    topology: Topology, mesh: Sequence[tuple[str, int]], axes: Axes, order: str, width_px: int
) -> Spec:
    """Chips as in `torus_chart`, colored by their group of a collective over `axes`; each numbered by
    its place in its group, else the first group joined in the order of the mesh.
    """
    places = mesh_places(topology, [size for _, size in mesh], order)
    groups = mesh_groups(places, mesh, axes)
    of = np.repeat(np.arange(len(groups)), groups.shape[1]).reshape(groups.shape[:2])
    if not (numbers := _numbers(topology, groups, of, width_px)):
        return _chart(topology, groups, of, groups[0], width_px, "group and place in it")
    drawn = _chart(topology, groups, of, groups[0, :0], width_px, "group and place in it")
    width, height = _drawing(topology).size
    place = {"x": _place("x", width), "y": _place("y", height, reverse=True)}
    drawn["layer"].append(layer(numbers, _DISK, **place))
    drawn["layer"].append(layer(numbers, _NUMBER, **place, text={"field": "number"}))
    return drawn


def _numbers(topology: Topology, groups: np.ndarray, of: np.ndarray, width_px: int) -> list[Row]:
    """Returns the place of each chip in its group, where chips have room for it."""
    drawing = _drawing(topology)
    if _step_px(drawing, width_px) < _NUMBERED_PX * topology.chip.devices_per_chip:
        return []
    return [
        {
            "x": (cast(float, row["x"]) + cast(float, row["x2"])) / 2,
            "y": (cast(float, row["y"]) + cast(float, row["y2"])) / 2,
            "number": str(row["mesh"]).rpartition(", ")[2],
        }
        for row in _chips(drawing, groups, of)
    ]


def _step_px(drawing: _Drawing, width_px: int) -> float:
    width, height = drawing.size
    return max(5.0, min(38.0, width_px / width, 330 / height))


def _chart(
    topology: Topology,
    places: np.ndarray,
    at: np.ndarray,
    group: np.ndarray,
    width_px: int,
    index: str,
) -> Spec:
    """The devices at `places`, [..., 5], in the colors of the numbers `at`, and a line through the
    `group`, [devices, 5]; what the `index` of a place is.
    """
    drawing = _drawing(topology)
    width, height = drawing.size
    step_px = _step_px(drawing, width_px)
    place = {"x": _place("x", width), "y": _place("y", height, reverse=True)}
    rectangle = place | {"x2": {"field": "x2"}, "y2": {"field": "y2"}}
    layers = [
        layer(
            _links(drawing),
            {"type": "rule", "strokeWidth": 1.2},
            **rectangle,
            color=category("kind", list(_LINK_COLORS), colors=list(_LINK_COLORS.values())),
        ),
        layer(
            _chips(drawing, places, at),
            {"type": "rect", "cornerRadius": 2},
            **rectangle,
            color=_shades(int(at.max()) + 1),
            tooltip=hover(chip="chip", mesh=index),
        ),
    ]
    if len(path := _path(drawing, group)) > 1:
        line = {"type": "line", "strokeWidth": 2.2, **INK, "point": {"size": 14, **INK}}
        layers.append(layer(path, line, **place, order=quantity("order")))
    return layered(
        layers,
        round(height * step_px),
        width=round(width * step_px),
        resolve={"scale": {"color": "independent"}},
    )


def _place(field: str, length: float, *, reverse: bool = False) -> Spec:
    scale = {"domain": [-0.7, length - 0.7], "nice": False, "zero": False, "reverse": reverse}
    return quantity(field, scale=scale, axis=None)


def _shades(size: int) -> Spec:
    if size <= 1:
        return {"value": "#3b76c4"}
    domain = [(size - 1) * part / (len(_SHADES) - 1) for part in range(len(_SHADES))]
    return quantity("at", legend=None, scale={"domain": domain, "range": _SHADES})


def _chips(drawing: _Drawing, places: np.ndarray, at: np.ndarray) -> list[Row]:
    """A rectangle for each device of the first slice, in the layers that are drawn; two devices of
    a chip share its square.
    """
    cores = drawing.topology.chip.devices_per_chip
    is_cube = len(drawing.topology.shape) > 2
    width = 0.68 / cores
    rows = []
    for index in np.ndindex(*places.shape[:-1]):
        x, y, z, core, slice_number = (int(value) for value in places[index])
        if slice_number or z >= drawing.layers:
            continue
        left, top = drawing.corner(z)
        begin = left + x - 0.34 + core * width
        place = f"({x}, {y}{f', {z}' if is_cube else ''})"
        rows.append(
            {
                "x": round(begin, 3),
                "x2": round(begin + width, 3),
                "y": top + y - 0.34,
                "y2": top + y + 0.34,
                "at": int(at[index]),
                "chip": place + (f", device {core}" if cores > 1 else ""),
                "mesh": ", ".join(map(str, index)),
            }
        )
    return rows  # pyrefly: ignore[bad-return]


def _links(drawing: _Drawing) -> list[Row]:
    x, y = drawing.topology.shape[:2]
    wraps_x, wraps_y = drawing.topology.wraps[:2]
    rows = []
    for each in range(drawing.layers):
        left, top = drawing.corner(each)
        rows += [_line(left + i, top + j, 1, 0, _LINK) for i in range(x - 1) for j in range(y)]
        rows += [_line(left + i, top + j, 0, 1, _LINK) for i in range(x) for j in range(y - 1)]
        if wraps_x:
            rows += [
                _line(left + at, top + j, way * _STUB, 0, _WRAP)
                for j in range(y)
                for at, way in ((0, -1), (x - 1, 1))
            ]
        if wraps_y:
            rows += [
                _line(left + i, top + at, 0, way * _STUB, _WRAP)
                for i in range(x)
                for at, way in ((0, -1), (y - 1, 1))
            ]
    return rows


def _line(x: float, y: float, right: float, down: float, kind: str) -> Row:
    return {
        "x": round(x, 3),
        "y": round(y, 3),
        "x2": round(x + right, 3),
        "y2": round(y + down, 3),
        "kind": kind,
    }


def _path(drawing: _Drawing, group: np.ndarray) -> list[Row]:
    """The chips of one group in mesh order, where all of it is in one layer that is drawn; jumps
    between layers would show little.
    """
    z = int(group[0][2]) if len(group) else 0
    layers = {(int(z), int(slice_number)) for _, _, z, _, slice_number in group}
    if len(group) > LONGEST_PATH or len(layers) > 1 or z >= drawing.layers:
        return []
    left, top = drawing.corner(z)
    return [
        {"x": left + int(x), "y": top + int(y), "order": at} for at, (x, y, *_) in enumerate(group)
    ]


def caption(topology: Topology) -> str:
    """What the picture shows, and what it leaves out."""
    closed = [name for name, wraps in zip("xyz", topology.wraps, strict=False) if wraps]
    words = [f"{topology.name}: {topology.chips:,} chips"]
    words.append(
        f"links that wrap around close rings along {' and '.join(closed)}"
        if closed
        else "no link wraps around: every axis is a line"
    )
    if len(topology.shape) > 2:
        drawn = layers_drawn(topology)
        count = (
            f"the first {drawn} of {topology.shape[2]} layers"
            if drawn < topology.shape[2]
            else numbered(drawn, "layer")
        )
        words.append(
            f"{count} along z, each linked chip by chip to the next"
            + (" and the last to the first" if "z" in closed else "")
            if topology.shape[2] > 1
            else f"{count} along z"
        )
    if topology.slices > 1:
        words.append(
            f"one of {topology.slices} slices is drawn; the others are alike, joined by DCN, the "
            f"data center network"
        )
    return (
        ". ".join(f"{part[0].upper()}{part[1:]}" if at else part for at, part in enumerate(words))
        + "."
    )

"""The picture of a mesh on its torus: chips, links with those that wrap around, and colours by the
coordinate along one mesh axis.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_core.machine import Topology, mesh_places
from ui.charts.base import CONFIG, INK, Spec

MAX_CHIPS, MAX_LAYERS = 1024, 8
LONGEST_PATH = 64  # of a group whose order is drawn
_STUB = 0.62  # length of a link that wraps around, in steps between chips
# from the first to the last place
_SHADES = ["#4662d7", "#36aaf9", "#1ae4b6", "#72e05e", "#c7d034", "#faba39", "#f66b19", "#cb2a04"]
_LINK, _WRAP = "#9aa1ab", "#d9730d"


def layers_drawn(topology: Topology) -> int:
    """How many layers along z are drawn; 1 of a flat topology."""
    if len(topology.shape) < 3:
        return 1
    x, y, z = topology.shape
    return max(1, min(z, MAX_LAYERS, MAX_CHIPS // (x * y)))


def torus_chart(
    topology: Topology, mesh: Sequence[tuple[str, int]], axis: str, order: str, width_px: int
) -> Spec:
    """Chips of one slice, layers of a cube side by side, coloured by the coordinate along mesh axis
    `axis`; one group of that axis is joined.
    """
    names = [name for name, _ in mesh]
    sizes = [size for _, size in mesh]
    layers = layers_drawn(topology)
    x, y = topology.shape[:2]
    columns = min(layers, max(1, round(math.sqrt(layers * 2 * (y + 1) / (x + 1)))))
    rows = -(-layers // columns)
    places = mesh_places(topology, sizes, order)
    along = names.index(axis)
    chips = _chips(topology, places, along, columns, layers)
    group = np.moveaxis(places, along, 0).reshape(sizes[along], -1, 5)[:, 0]
    span = {"x": columns * (x + 1.6) - 1.2, "y": rows * (y + 1.6) - 1.2}
    step = max(5.0, min(38.0, width_px / span["x"], 330 / span["y"]))
    scale: dict[str, Any] = {
        name: {"domain": [-0.7, span[name] - 0.7], "nice": False, "zero": False} for name in "xy"
    }
    scale["y"]["reverse"] = True

    def ends(*fields: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for field in fields:
            found[field] = (
                {"field": field}
                if field.endswith("2")
                else {"field": field, "type": "quantitative", "scale": scale[field], "axis": None}
            )
        return found

    colour: dict[str, Any] = {
        "field": "at",
        "type": "quantitative",
        "legend": None,
        "scale": {
            "domain": [
                (sizes[along] - 1) * part / (len(_SHADES) - 1) for part in range(len(_SHADES))
            ],
            "range": _SHADES,
        },
    }
    if sizes[along] <= 1:
        colour = {"value": "#3b76c4"}
    layers_of_chart = [
        {
            "data": {"values": _links(topology, columns, layers)},
            "mark": {"type": "rule", "strokeWidth": 1.2},
            "encoding": ends("x", "y", "x2", "y2")
            | {
                "color": {
                    "field": "kind",
                    "type": "nominal",
                    "scale": {"domain": ["link", "wraps around"], "range": [_LINK, _WRAP]},
                    "legend": None,
                }
            },
        },
        {
            "data": {"values": chips},
            "mark": {"type": "rect", "cornerRadius": 2},
            "encoding": ends("x", "y", "x2", "y2")
            | {
                "color": colour,
                "tooltip": [{"field": "chip"}, {"field": "mesh", "title": "in the mesh"}],
            },
        },
    ]
    path = _path(topology, group, columns, layers)
    if len(path) > 1:
        layers_of_chart.append(
            {
                "data": {"values": path},
                "mark": {"type": "line", "strokeWidth": 2.2, **INK, "point": {"size": 14, **INK}},
                "encoding": ends("x", "y") | {"order": {"field": "order", "type": "quantitative"}},
            }
        )
    return {
        "layer": layers_of_chart,
        "width": round(span["x"] * step),
        "height": round(span["y"] * step),
        "config": CONFIG,
        "resolve": {"scale": {"color": "independent"}},
    }


def _corner(layer: int, columns: int, topology: Topology) -> tuple[float, float]:
    x, y = topology.shape[:2]
    return (layer % columns) * (x + 1.6), (layer // columns) * (y + 1.6)


def _chips(
    topology: Topology, places: np.ndarray, along: int, columns: int, layers: int
) -> list[dict[str, Any]]:
    """A rectangle for each device of the first slice, in the layers that are drawn; two devices of
    a chip share its square.
    """
    cores = topology.chip.devices_per_chip
    found = []
    for index in np.ndindex(*places.shape[:-1]):
        x, y, z, core, number = (int(value) for value in places[index])
        if number or z >= layers:
            continue
        left, top = _corner(z, columns, topology)
        width = 0.68 / cores
        begin = left + x - 0.34 + core * width
        place = f"({x}, {y}{f', {z}' if len(topology.shape) > 2 else ''})" + (
            f", device {core}" if cores > 1 else ""
        )
        found.append(
            {
                "x": round(begin, 3),
                "x2": round(begin + width, 3),
                "y": top + y - 0.34,
                "y2": top + y + 0.34,
                "at": index[along],
                "chip": place,
                "mesh": ", ".join(str(at) for at in index),
            }
        )
    return found


def _links(topology: Topology, columns: int, layers: int) -> list[dict[str, Any]]:
    x, y = topology.shape[:2]
    found = []
    for layer in range(layers):
        left, top = _corner(layer, columns, topology)
        found += [_line(left + i, top + j, 1, 0, "link") for i in range(x - 1) for j in range(y)]
        found += [_line(left + i, top + j, 0, 1, "link") for i in range(x) for j in range(y - 1)]
        if topology.wraps[0]:
            found += [
                _line(left + at, top + j, way * _STUB, 0, "wraps around")
                for j in range(y)
                for at, way in ((0, -1), (x - 1, 1))
            ]
        if topology.wraps[1]:
            found += [
                _line(left + i, top + at, 0, way * _STUB, "wraps around")
                for i in range(x)
                for at, way in ((0, -1), (y - 1, 1))
            ]
    return found


def _line(x: float, y: float, right: float, down: float, kind: str) -> dict[str, Any]:
    return {
        "x": round(x, 3),
        "y": round(y, 3),
        "x2": round(x + right, 3),
        "y2": round(y + down, 3),
        "kind": kind,
    }


def _path(topology: Topology, group: np.ndarray, columns: int, layers: int) -> list[dict[str, Any]]:
    """The chips of one group in mesh order, where all of it is in one layer that is drawn; jumps
    between layers would say little.
    """
    if (
        len(group) > LONGEST_PATH
        or len({(int(z), int(number)) for _, _, z, _, number in group}) > 1
        or int(group[0][2]) >= layers
    ):
        return []
    left, top = _corner(int(group[0][2]), columns, topology)
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
            else f"{drawn} layers"
        )
        words.append(
            f"{count} along z, each linked chip by chip to the next"
            + (" and the last to the first" if "z" in closed else "")
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

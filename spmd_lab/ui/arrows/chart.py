"""The mesh with arrows as a Vega-Lite chart: squares for devices, an arrow for every link that
carries bytes, wider and redder the more it carries.
"""

import math

import numpy as np
import pyarrow as pa

from spmd_core.base import bytes_text, mesh_text
from spmd_core.pictures import Arrow, ArrowScene, Node, Placed
from spmd_lab.ui.arrows.words import way_words
from spmd_lab.ui.charts.base import INK, Row, Spec, as_is, hover, layer, layered, quantity

_HALF = 0.3  # of a square, in steps between nodes
_ASIDE = 0.12  # so that two ways of a link are side by side
_PAST = 0.4  # the same, of an arrow past other nodes
_STEP_PX, _LABELLED_PX, _TALLEST_PX = 64.0, 100.0, 560.0
_LABELLED = 40  # arrows: with more, their bytes are shown on hover
_ROOMY_PX = 44  # between nodes, below which arrows are drawn thinner
_ROOM_PX = 98  # between nodes, below which labels of arrows vanish
_CHARACTER_PX, _LINE_PX, _CLEAR_PX = 5.8, 12.0, 6.0  # of labels of arrows; between them and these
_NODE, _NODE_INK = "#c3d0e6", "#15181d"  # light, with dark labels, in both themes
_SHADES = ["#8fa9cf", "#e0a33a", "#d9603b", "#c4203f"]  # from little to as much as the busiest
_BUSIEST = "#c4203f"
_SQUARE = {"type": "rect", "cornerRadius": 3, "color": _NODE}
_NODE_HOVER = hover(devices="device", mesh="in the mesh", place="is at")
_ARROW_HOVER = hover(ends="from → to", over="over", bytes="bytes", way="link")


def chart(placed: Placed, scene: ArrowScene) -> Spec:
    """The picture, as wide as there is room."""
    step_px = _LABELLED_PX if len(scene.arrows) <= _LABELLED else _STEP_PX
    height = max(110.0, min(_TALLEST_PX, scene.rows * step_px + 30))
    wide, tall = scene.columns + 0.6, scene.rows + 0.8
    place = {"x": _place("x", -0.8, wide), "y": _place("y", -1.0, tall, reverse=True)}
    ends = place | {"x2": {"field": "x2"}, "y2": {"field": "y2"}}
    most = max((arrow.link.nbytes for arrow in scene.arrows), default=1.0)
    arrows = [
        _arrow(placed, arrow, most, is_busiest=number == 0)
        for number, arrow in enumerate(scene.arrows)
    ]
    _put_labels(arrows, scene, height / tall)
    arrows.reverse()  # the busiest is drawn last, above the others
    layers = [
        layer([_node(placed, node) for node in scene.nodes], _SQUARE, **ends, tooltip=_NODE_HOVER),
        *_shafts_and_heads(place, ends, wide, height / tall),
        _node_numbers(scene, place, wide),
    ]
    if any(panel.name for panel in scene.panels):
        layers.append(_panel_names(scene, place))
    if len(arrows) <= _LABELLED:
        mark = {
            "type": "text",
            "fontSize": 10.5,
            "tooltip": None,
            "aria": False,
            **INK,
            "opacity": {"expr": f"width / {wide:g} < {_ROOM_PX} ? 0 : 1"},
        }
        x, y = place["x"] | {"field": "tx"}, place["y"] | {"field": "ty"}
        layers.append(layer("arrows", mark, x=x, y=y, text={"field": "label"}))
    return layered(
        layers,
        round(height),
        # (once, as a table: a thousand arrows are half a megabyte of JSON)
        datasets={"arrows": pa.Table.from_pylist(arrows)},
        resolve={"scale": {"color": "independent"}},
    )


def _place(field: str, start: float, length: float, *, reverse: bool = False) -> Spec:
    scale = {"domain": [start, start + length], "nice": False, "zero": False, "reverse": reverse}
    return quantity(field, axis=None, scale=scale)


def _shafts_and_heads(place: Spec, ends: Spec, wide: float, step_px: float) -> list[Spec]:
    angle = f"atan2(datum.dx * width / {wide:g}, -datum.dy * {step_px:g}) * 180 / PI"
    thin = f"min(1, max(0.4, width / {wide * _ROOMY_PX:g}))"  # where nodes are close together
    hovered = {"color": as_is("color"), "tooltip": _ARROW_HOVER}
    dash = {"condition": {"test": "datum.way == 'DCN'", "value": [3, 2]}, "value": [1, 0]}
    shaft = {
        "type": "rule",
        "strokeCap": "round",
        "strokeWidth": {"expr": f"datum.width * {thin}"},
    }
    head = {
        "type": "point",
        "shape": "triangle-up",
        "filled": True,
        "opacity": 1,
        "size": {"expr": f"datum.head * {thin}"},
    }
    at_head = {"x": place["x"] | {"field": "hx"}, "y": place["y"] | {"field": "hy"}}
    turned = {"angle": {"field": "angle", "type": "quantitative", "scale": None}}
    return [
        layer("arrows", shaft, **ends, **hovered, strokeDash=dash),
        layer("arrows", head, **at_head, **turned, **hovered)
        | {"transform": [{"calculate": angle, "as": "angle"}]},
    ]


def _node(placed: Placed, node: Node) -> Row:
    axes, sizes = [name for name, _ in placed.mesh], [size for _, size in placed.mesh]
    coordinates = [
        mesh_text(list(zip(axes, map(int, np.unravel_index(position, sizes)), strict=True)))
        for position in node.positions[:4]
    ]
    places = [placed.places[at] for at in node.positions] if placed.places else []
    return {
        "x": node.column - _HALF,
        "x2": node.column + _HALF,
        "y": node.row - _HALF,
        "y2": node.row + _HALF,
        "mesh": "; ".join(coordinates) + ("…" if len(node.positions) > 4 else ""),
        "devices": ", ".join(str(placed.numbers[at]) for at in node.positions),
        "place": "; ".join(
            f"({x}, {y}, {z})" + (f" slice {number}" if number else "")
            for x, y, z, _, number in dict.fromkeys(places)
        )
        or "no coordinates",
    }


def _arrow(placed: Placed, arrow: Arrow, most: float, is_busiest: bool) -> Spec:
    (x, y), (x2, y2), link = arrow.start, arrow.end, arrow.link
    length = math.hypot(x2 - x, y2 - y) or 1.0
    right, down = (x2 - x) / length, (y2 - y) / length
    past = length > 1.01 and abs(right * down) < 0.01  # beside the nodes between, not over them
    aside_by = _PAST if past else _ASIDE
    aside = -down * aside_by, right * aside_by
    stub = length < 0.99
    begin, end = (0.0, length) if past else (_HALF + 0.01, length - (0.0 if stub else _HALF + 0.03))
    if stub and abs(right * down) > 0.1:
        begin = _HALF * 1.15
    share = link.nbytes / most
    shade = _BUSIEST if is_busiest else _SHADES[min(len(_SHADES) - 1, int(share * len(_SHADES)))]
    width = 5.0 if is_busiest else 1.0 + 2.6 * share
    return {
        "x": round(x + right * begin + aside[0], 4),
        "y": round(y + down * begin + aside[1], 4),
        "x2": round(x + right * end + aside[0], 4),
        "y2": round(y + down * end + aside[1], 4),
        "hx": round(x + right * end + aside[0], 4),
        "hy": round(y + down * end + aside[1], 4),
        "dx": round(right, 4),
        "dy": round(down, 4),
        "color": shade,
        "width": round(width, 2),
        "head": 130 if is_busiest else round(36 + 60 * share),
        "ends": f"{placed.numbers[link.source]} → {placed.numbers[link.target]}",
        "over": ", ".join(link.axes) or "–",
        "bytes": bytes_text(link.nbytes),
        "way": way_words(placed, link),
        # (none at arrows that pass by, which carry what the others of their ring do)
        "label": "" if past else bytes_text(link.nbytes),
    }


def _put_labels(arrows: list[Spec], scene: ArrowScene, step_px: float) -> None:
    """Give each label its place: below or above the squares of an arrow across, beside an arrow
    down. Labels that would overlap a square or a label before them, in the narrowest picture that
    has labels, are emptied. `step_px`: pixels of a step down. The busiest arrows come first and
    keep theirs.
    """
    taken = [  # center, half the width and half the height, in pixels
        (node.column * _ROOM_PX, node.row * step_px, _HALF * _ROOM_PX, _HALF * step_px)
        for node in scene.nodes
    ]
    for arrow in arrows:
        right, down = arrow["dx"], arrow["dy"]
        half = _CHARACTER_PX * len(arrow["label"]) / 2
        x, y = (arrow["x"] + arrow["x2"]) / 2, (arrow["y"] + arrow["y2"]) / 2
        if abs(right) > abs(down):
            y += right * (_HALF - _ASIDE + _LINE_PX / step_px)
        else:
            x -= down * (half + _CLEAR_PX) / _ROOM_PX
        arrow |= {"tx": round(x, 4), "ty": round(y, 4)}
        x, y = x * _ROOM_PX, y * step_px
        if any(
            abs(x - left) < half + wide and abs(y - top) < _LINE_PX / 2 + tall
            for left, top, wide, tall in taken
        ):
            arrow["label"] = ""
        elif arrow["label"]:
            taken.append((x, y, half, _LINE_PX / 2))


def _node_numbers(scene: ArrowScene, place: Spec, wide: float) -> Spec:
    longest = max((len(node.label) for node in scene.nodes), default=1)
    size = f"min(13, width / {wide:g} * {2 * _HALF:g} / {0.58 * longest:.3g})"
    mark = {
        "type": "text",
        "color": _NODE_INK,
        "tooltip": None,
        "aria": False,
        "fontSize": {"expr": size},
        "opacity": {"expr": f"{size} < 7.5 ? 0 : 1"},
    }
    rows = [{"x": node.column, "y": node.row, "text": node.label} for node in scene.nodes]
    return layer(rows, mark, **place, text={"field": "text"})


def _panel_names(scene: ArrowScene, place: Spec) -> Spec:
    rows = [
        {"x": panel.column - _HALF, "y": panel.row - 0.72, "text": panel.name}
        for panel in scene.panels
    ]
    mark = {"type": "text", "align": "left", "fontSize": 11, **INK}
    return layer(rows, mark, **place, text={"field": "text"})

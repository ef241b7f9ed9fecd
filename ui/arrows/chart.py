"""The mesh with arrows as a Vega-Lite chart: squares for devices, an arrow for every link that
carries bytes, wider and redder the more it carries.
"""

import math

import pyarrow as pa

from spmd_core.base import bytes_text, mesh_text
from spmd_core.pictures import Arrow, ArrowScene, Node, Placed
from spmd_core.words import way_words
from ui.charts.base import CONFIG, INK, Spec

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


def chart(stand: Placed, drawn: ArrowScene) -> Spec:
    """The picture, as wide as there is room."""
    step = _LABELLED_PX if len(drawn.arrows) <= _LABELLED else _STEP_PX
    height = max(110.0, min(_TALLEST_PX, drawn.rows * step + 30))
    wide, tall = drawn.columns + 0.6, drawn.rows + 0.8
    scales = {
        "x": {"domain": [-0.8, wide - 0.8]},
        "y": {"domain": [-1.0, tall - 1.0], "reverse": True},
    }

    def at(*fields: str) -> Spec:
        channels: Spec = {}
        for field in fields:
            channels[field] = (
                {"field": field}
                if field.endswith("2")
                else {
                    "field": field,
                    "type": "quantitative",
                    "axis": None,
                    "scale": scales[field] | {"nice": False, "zero": False},
                }
            )
        return channels

    most = max((arrow.link.nbytes for arrow in drawn.arrows), default=1.0)
    arrows = [
        _arrow(stand, arrow, most, at_once=number == 0) for number, arrow in enumerate(drawn.arrows)
    ]
    _put_labels(arrows, drawn, height / tall)
    arrows.reverse()  # the busiest is drawn last, above the others
    layers = [
        {
            "data": {"values": [_node(stand, node) for node in drawn.nodes]},
            "mark": {"type": "rect", "cornerRadius": 3, "color": _NODE},
            "encoding": at("x", "y", "x2", "y2")
            | {
                "tooltip": [
                    {"field": "devices", "title": "device"},
                    {"field": "mesh", "title": "in the mesh"},
                    {"field": "place", "title": "stands at"},
                ]
            },
        },
        *_shafts_and_heads(at("x", "y", "x2", "y2"), wide, height / tall),
        _labels(drawn, at("x", "y"), wide),
    ]
    layers += [_words(drawn, at("x", "y"))] if any(panel.name for panel in drawn.panels) else []
    if len(arrows) <= _LABELLED:
        layers.append(_bytes(at("x", "y"), wide))
    # (once, as a table: a thousand arrows are half a megabyte of JSON)
    return {
        "layer": layers,
        "height": round(height),
        "config": CONFIG,
        "datasets": {"arrows": pa.Table.from_pylist(arrows)},
        "resolve": {"scale": {"color": "independent"}},
    }


def _shafts_and_heads(place: Spec, wide: float, step_px: float) -> list[Spec]:
    """The layers of the arrows; `wide` steps across, and pixels of a step down."""
    angle = f"atan2(datum.dx * width / {wide:g}, -datum.dy * {step_px:g}) * 180 / PI"
    hover = [
        {"field": name, "title": title}
        for name, title in (
            ("ends", "from → to"),
            ("over", "over"),
            ("bytes", "bytes"),
            ("way", "link"),
        )
    ]
    hovered = {"color": {"field": "color", "type": "nominal", "scale": None}, "tooltip": hover}
    thin = f"min(1, max(0.4, width / {wide * _ROOMY_PX:g}))"  # where nodes are close together
    dash = {"condition": {"test": "datum.way == 'DCN'", "value": [3, 2]}, "value": [1, 0]}
    return [
        {
            "data": {"name": "arrows"},
            "mark": {
                "type": "rule",
                "strokeCap": "round",
                "strokeWidth": {"expr": f"datum.width * {thin}"},
            },
            "encoding": place | hovered | {"strokeDash": dash},
        },
        {
            "data": {"name": "arrows"},
            "transform": [{"calculate": angle, "as": "angle"}],
            "mark": {
                "type": "point",
                "shape": "triangle-up",
                "filled": True,
                "opacity": 1,
                "size": {"expr": f"datum.head * {thin}"},
            },
            "encoding": hovered
            | {
                "x": place["x"] | {"field": "hx"},
                "y": place["y"] | {"field": "hy"},
                "angle": {"field": "angle", "type": "quantitative", "scale": None},
            },
        },
    ]


def _node(stand: Placed, node: Node) -> Spec:
    places = [stand.places[at] for at in node.positions] if stand.places else []
    sizes = [size for _, size in stand.mesh]
    mesh = []
    for position in node.positions[:4]:
        rest, parts = position, []
        for size in reversed(sizes):
            rest, part = divmod(rest, size)
            parts.append(part)
        mesh.append(
            mesh_text(
                [(name, at) for (name, _), at in zip(stand.mesh, reversed(parts), strict=True)]
            )
        )
    return {
        "x": node.column - _HALF,
        "x2": node.column + _HALF,
        "y": node.row - _HALF,
        "y2": node.row + _HALF,
        "mesh": "; ".join(mesh) + ("…" if len(node.positions) > 4 else ""),
        "devices": ", ".join(str(stand.numbers[at]) for at in node.positions),
        "place": "; ".join(
            f"({x}, {y}, {z})" + (f" slice {number}" if number else "")
            for x, y, z, _, number in dict.fromkeys(places)
        )
        or "no coordinates",
    }


def _arrow(stand: Placed, arrow: Arrow, most: float, at_once: bool) -> Spec:
    """An arrow beside the line between two nodes, on its right-hand side."""
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
    shade = _BUSIEST if at_once else _SHADES[min(len(_SHADES) - 1, int(share * len(_SHADES)))]
    width = 5.0 if at_once else 1.0 + 2.6 * share
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
        "head": 130 if at_once else round(36 + 60 * share),
        "ends": f"{stand.numbers[link.source]} → {stand.numbers[link.target]}",
        "over": ", ".join(link.axes) or "–",
        "bytes": bytes_text(link.nbytes),
        "way": way_words(stand, link),
        # (none at arrows that pass by, which carry what the others of their ring do)
        "label": "" if past else bytes_text(link.nbytes),
    }


def _put_labels(arrows: list[Spec], drawn: ArrowScene, step_px: float) -> None:
    """Give each label its place: below or above the squares of an arrow across, beside an arrow down.
    Labels that would overlap a square or a label before them, in the narrowest picture that has
    labels, are emptied.
    `step_px`: pixels of a step down. The busiest arrows come first and keep theirs.
    """
    taken = [  # center, half the width and half the height, in pixels
        (node.column * _ROOM_PX, node.row * step_px, _HALF * _ROOM_PX, _HALF * step_px)
        for node in drawn.nodes
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


def _labels(drawn: ArrowScene, place: Spec, wide: float) -> Spec:
    """Numbers in the squares, which vanish where a square is too narrow for them."""
    longest = max((len(node.label) for node in drawn.nodes), default=1)
    size = f"min(13, width / {wide:g} * {2 * _HALF:g} / {0.58 * longest:.3g})"
    return {
        "data": {
            "values": [
                {"x": node.column, "y": node.row, "text": node.label} for node in drawn.nodes
            ]
        },
        "mark": {
            "type": "text",
            "color": _NODE_INK,
            "tooltip": None,
            "aria": False,
            "fontSize": {"expr": size},
            "opacity": {"expr": f"{size} < 7.5 ? 0 : 1"},
        },
        "encoding": place | {"text": {"field": "text"}},
    }


def _words(drawn: ArrowScene, place: Spec) -> Spec:
    return {
        "data": {
            "values": [
                {"x": panel.column - _HALF, "y": panel.row - 0.72, "text": panel.name}
                for panel in drawn.panels
            ]
        },
        "mark": {"type": "text", "align": "left", "fontSize": 11, **INK},
        "encoding": place | {"text": {"field": "text"}},
    }


def _bytes(place: Spec, wide: float) -> Spec:
    """Bytes beside each arrow, where there is room for them."""
    return {
        "data": {"name": "arrows"},
        "mark": {
            "type": "text",
            "fontSize": 10.5,
            "tooltip": None,
            "aria": False,
            **INK,
            "opacity": {"expr": f"width / {wide:g} < {_ROOM_PX} ? 0 : 1"},
        },
        "encoding": {
            "x": place["x"] | {"field": "tx"},
            "y": place["y"] | {"field": "ty"},
            "text": {"field": "label"},
        },
    }

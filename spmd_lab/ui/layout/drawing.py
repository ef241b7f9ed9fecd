"""Marks of a picture of cells as one Vega-Lite chart, which follows the width that there is.

Charts are Vega-Lite as plain values: validating an Altair chart of two pictures costs more than a
full rerun may.
"""

import pyarrow as pa

from spmd_lab.ui.charts.base import INK, Spec, as_is, hover, layer, quantity
from spmd_lab.ui.layout.grid import WIDTH
from spmd_lab.ui.layout.marks import Marks

_INK = "#15181d"  # of labels in cells: every cell is light, in both themes
_SPOKEN = "'device ' + datum.devices + ', mesh ' + datum.mesh + ', holds ' + datum.holds + ', ' + datum.bytes + ', same data ' + datum.same"
# pixels of an x unit: of any mark, and of a picture to scale, which shrinks alone; `margin` is a
# parameter of the chart, whose pixels are those of its labels in every window
_WIDE = f"((width - margin) / ({WIDTH:g} - margin))"
_SHRUNK = f"min(1, {_WIDE})"
_WIDER = f"(datum.exact ? {_SHRUNK} : {_WIDE})"
_LOWER = f"(datum.exact ? {_SHRUNK} : 1)"
_HOVER = hover(
    devices="device", mesh="mesh", holds="holds", bytes="bytes on each", same="same data"
)
_CELL = {
    "type": "rect",
    "cornerRadius": 2,
    "description": {"expr": _SPOKEN},
    "stroke": INK["color"],
    "strokeWidth": {"expr": "datum.outlined ? 3 : 0"},
}
# the cells that hold the same data as the one under the pointer
_SAME_DATA = {
    "name": "same",
    "select": {"type": "point", "fields": ["key"], "on": "pointerover", "clear": "pointerout"},
}
_TEXT = {"type": "text", "baseline": "middle", "tooltip": None, "aria": False}
# labels grow and shrink with the cells, and vanish before they cannot be read
_FONT = f"min(datum.size * {_WIDER}, datum.most, datum.room * {_LOWER})"
_CELL_LABEL = _TEXT | {
    "color": _INK,
    "fontSize": {"expr": _FONT},
    "opacity": {"expr": f"{_FONT} < 7 ? 0 : 1"},
}
# words around the cells: every so many of a line, as far apart as they have room
_APART = f"max(1, ceil(datum.need / datum.room / (datum.down ? {_LOWER} : {_WIDER})))"
_WORD = (
    _TEXT
    | INK
    | {
        "align": {"expr": "datum.align"},
        "fontWeight": {"expr": "datum.weight"},
        "opacity": {"expr": f"datum.index % {_APART} == 0 ? 1 : 0"},
    }
)


def vega(marks: Marks, height: float, margin: float) -> Spec:
    """One layered view, so that it follows the width there is, and one selection covers both
    pictures. `margin`: pixels that are left free for labels at the left.
    """
    place = {
        "x": _place("xa", {"domain": [0, WIDTH]}),
        "y": _place("ya", {"domain": [0, height], "reverse": True}),
    }
    labels = place | {"text": {"field": "text"}}
    sized = labels | {"size": {"field": "size", "type": "quantitative", "scale": None}}
    cells = layer(
        "cells",
        _CELL,
        **place,
        x2={"field": "xa2"},
        y2={"field": "ya2"},
        color=as_is("color"),
        tooltip=_HOVER,
        opacity={"condition": {"param": "same", "empty": True, "value": 1}, "value": 0.22},
    )
    return {
        "height": height,
        "params": [{"name": "margin", "value": margin}],
        "padding": {"left": 0, "top": 2, "right": 0, "bottom": 2},
        "config": {"view": {"stroke": None}, "background": "transparent"},
        "datasets": {
            "cells": pa.table(marks.cells),
            "inside": pa.table(marks.inside),
            "outside": pa.table(marks.outside),
        },
        "layer": [
            cells | {"transform": _moved("", "2"), "params": [_SAME_DATA]},
            layer("inside", _CELL_LABEL, **labels) | {"transform": _moved("")},
            layer("outside", _WORD, **sized) | {"transform": _moved("")},
        ],
    }


def _place(field: str, scale: Spec) -> Spec:
    return quantity(field, scale=scale | {"nice": False, "zero": False}, axis=None)


def _moved(*ends: str) -> list[dict[str, str]]:
    """Places of marks in the width that there is, by the rule of `Marks`, under names of their own:
    Vega works them out anew from x and y whenever the width changes.
    """
    return [
        made
        for end in ends
        for made in (
            {
                "as": f"xa{end}",
                "calculate": f"(min(datum.x{end}, margin) + max(0, datum.x{end} - margin) * {_WIDER})"
                f" * {WIDTH:g} / width",
            },
            {"as": f"ya{end}", "calculate": f"datum.y{end} - datum.body{end} * (1 - {_SHRUNK})"},
        )
    ]

"""Marks of a picture of cells as one Vega-Lite chart, which follows the width that there is.

Charts are Vega-Lite as plain values: validating an Altair chart of two pictures costs more than a
full rerun may.
"""

from typing import Any

import pyarrow as pa

from ui.layout.grid import WIDTH
from ui.layout.marks import Marks

_INK = "#15181d"  # of labels in cells: every cell is light, in both themes
_SPOKEN = "'device ' + datum.devices + ', mesh ' + datum.mesh + ', holds ' + datum.holds + ', ' + datum.bytes + ', same data ' + datum.same"
# pixels of an x unit: of a picture to scale in a narrow window, and of any mark
_SHRUNK = f"min(1, width / {WIDTH:g})"
_WIDER = f"(datum.exact ? {_SHRUNK} : width / {WIDTH:g})"
_LOWER = f"(datum.exact ? {_SHRUNK} : 1)"
# around them: dark on a light page and light on a dark one, whichever it is
_WORDS = {"aria": False, "color": "#ccd2da", "blend": "difference"}


def vega(marks: Marks, height: float) -> dict[str, Any]:
    """One layered view, so that it follows the width there is, and one selection covers both
    pictures.
    """
    domain = {"nice": False, "zero": False}
    across = {"type": "quantitative", "scale": {"domain": [0, WIDTH], **domain}, "axis": None}
    down = {
        "type": "quantitative",
        "scale": {"domain": [0, height], "reverse": True, **domain},
        "axis": None,
    }
    place = {"x": {"field": "xa"} | across, "y": {"field": "ya"} | down}
    labels = place | {"text": {"field": "text"}}
    words = labels | {"size": {"field": "size", "type": "quantitative", "scale": None}}
    hover = [
        {"field": field, "title": title}
        for field, title in (
            ("devices", "device"),
            ("mesh", "mesh"),
            ("holds", "holds"),
            ("bytes", "bytes on each"),
            ("same", "same data"),
        )
    ]
    text = {"type": "text", "baseline": "middle", "tooltip": None}
    # labels grow and shrink with the cells, and vanish before they cannot be read
    size = f"min(datum.size * {_WIDER}, datum.most, datum.room * {_LOWER})"
    label = text | {
        "color": _INK,
        "aria": False,
        "fontSize": {"expr": size},
        "opacity": {"expr": f"{size} < 7 ? 0 : 1"},
    }
    apart = f"max(1, ceil(datum.need / datum.room / (datum.down ? {_LOWER} : {_WIDER})))"
    word = (
        text
        | _WORDS
        | {
            "align": {"expr": "datum.align"},
            "fontWeight": {"expr": "datum.weight"},
            "opacity": {"expr": f"datum.index % {apart} == 0 ? 1 : 0"},
        }
    )
    lit = {"condition": {"param": "same", "empty": True, "value": 1}, "value": 0.22}
    fill = {"field": "color", "type": "nominal", "scale": None}
    return {
        "height": height,
        "padding": {"left": 0, "top": 2, "right": 0, "bottom": 2},
        "config": {"view": {"stroke": None}},
        "datasets": {
            "cells": pa.table(marks.cells),
            "inside": pa.table(marks.inside),
            "outside": pa.table(marks.outside),
        },
        "layer": [
            {
                "data": {"name": "cells"},
                "transform": _moved("", "2"),
                "mark": {"type": "rect", "cornerRadius": 2, "description": {"expr": _SPOKEN}},
                "params": [
                    {
                        "name": "same",
                        "select": {
                            "type": "point",
                            "fields": ["key"],
                            "on": "pointerover",
                            "clear": "pointerout",
                        },
                    }
                ],
                "encoding": place
                | {
                    "x2": {"field": "xa2"},
                    "y2": {"field": "ya2"},
                    "color": fill,
                    "tooltip": hover,
                    "opacity": lit,
                },
            },
            {
                "data": {"name": "inside"},
                "mark": label,
                "encoding": labels,
                "transform": _moved(""),
            },
            {"data": {"name": "outside"}, "mark": word, "encoding": words, "transform": _moved("")},
        ],
    }


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
                "calculate": f"datum.exact ? datum.x{end} * {_WIDER} * {WIDTH:g} / width"
                f" : datum.x{end}",
            },
            {"as": f"ya{end}", "calculate": f"datum.y{end} - datum.body{end} * (1 - {_SHRUNK})"},
        )
    ]

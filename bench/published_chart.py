"""The picture of estimates over published steps, as a Vega-Lite specification."""

import random
from collections.abc import Sequence
from typing import Any, NamedTuple

_WITHIN, _APART = 10, 15  # percent: of the band, and from where on a dot is named
_COLORS = {"dense": "#3b76c4", "experts": "#d9730d", "8 bits": "#7a5cc7", "other kernel": "#2f855a"}
_QUIET, _INK = "#4f5b6b", "#1c2430"
_CONFIG = {
    "background": "#ffffff",
    "padding": 16,
    "view": {"stroke": None},
    "title": {"fontSize": 17, "fontWeight": 600, "color": _INK, "offset": 10, "anchor": "start"},
    "axis": {"domain": False, "ticks": False, "labelColor": _QUIET, "labelFontSize": 12},
    "axisX": {"grid": False, "labelPadding": 8, "labelAngle": 0},
    "axisY": {"gridColor": "#e3e8ee"},
    "legend": {"labelColor": _QUIET, "labelFontSize": 12, "symbolOpacity": 1, "orient": "top"},
}

_ONCE = {"data": {"values": [{}]}}


class Dot(NamedTuple):
    """A published step: its chip, kind, model, and how far the estimate is off in percent."""

    chip: str
    kind: str
    model: str
    error: float


def _values(dots: Sequence[Dot]) -> list[dict[str, Any]]:
    furthest = {each.chip: each for each in sorted(dots, key=lambda each: abs(each.error))}
    draw = random.Random(0)  # so that equal errors are beside one another
    named = [each for each in furthest.values() if abs(each.error) > _APART]
    return [
        {
            "chip": each.chip,
            "kind": each.kind if each.kind in _COLORS else "dense",  # a GPU is no kind of plan
            "error": each.error,
            "aside": 1.2 if each in named else draw.uniform(-1, 1),
            "name": f"{each.model}, {each.error:+.0f} %" if each in named else "",
        }
        for each in dots
    ]


def errors_chart(dots: Sequence[Dot]) -> dict[str, Any]:
    """Returns a dot for each step by chip, within a band; those that are far off are named."""
    within = sum(abs(each.error) <= _WITHIN for each in dots)
    kinds = {"domain": [*_COLORS], "range": [*_COLORS.values()]}
    x = {"field": "chip", "type": "nominal", "title": None}
    y = {"field": "error", "type": "quantitative", "title": None}
    y |= {
        "axis": {
            "tickCount": 6,
            "labelExpr": "(datum.value ? format(datum.value, '+') : '0') + ' %'",
        }
    }
    aside = {"field": "aside", "type": "quantitative", "scale": {"domain": [-1.5, 1.5]}}
    placed = {"x": x, "xOffset": aside, "y": y}
    band = {"y": {"datum": -_WITHIN}, "y2": {"datum": _WITHIN}}
    return {
        "title": f"{within} of {len(dots)} estimates are within {_WITHIN} % of a published step",
        "data": {"values": _values(dots)},
        "width": {"step": 90},
        "height": 300,
        "layer": [
            _ONCE
            | {
                "mark": {"type": "rect", "color": _COLORS["dense"], "opacity": 0.1},
                "encoding": band,
            },
            _ONCE | {"mark": {"type": "rule", "color": "#a3adba"}, "encoding": {"y": {"datum": 0}}},
            {
                "mark": {"type": "point", "filled": True, "size": 55, "opacity": 0.8},
                "encoding": placed
                | {"color": {"field": "kind", "type": "nominal", "title": None, "scale": kinds}},
            },
            {
                "mark": {"type": "text", "dx": 10, "align": "left", "color": _INK, "fontSize": 12},
                "transform": [{"filter": "datum.name"}],
                "encoding": placed | {"text": {"field": "name"}},
            },
        ],
        "config": _CONFIG,
    }

"""The picture of estimates over published steps, as a Vega-Lite specification."""

import json
import math
import random
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any, NamedTuple

_WITHIN = 10  # percent: what is further off is numbered, and named beside the chart
_CHIPS = ("A100", "H100", "H200", "B200", "v5e", "v5p", "v6e", "TPU7x")
_COLORS = {"dense": "#3b76c4", "experts": "#d9730d", "8 bits": "#7a5cc7", "other kernel": "#2f855a"}
_APART = 11  # pixels of a number from its dot
_DRAWS = 12  # places aside of a dot, of which the one that is clear of other dots is taken
_QUIET, _INK = "#4f5b6b", "#1c2430"
_CONFIG = {
    "background": "#ffffff",
    "padding": 16,
    "view": {"stroke": None},
    "title": {
        "fontSize": 17,
        "fontWeight": 600,
        "color": _INK,
        "offset": 14,
        "anchor": "start",
        "subtitleFontSize": 13,
        "subtitleColor": _QUIET,
        "subtitlePadding": 6,
    },
    "axis": {"domain": False, "ticks": False, "labelColor": _QUIET, "labelFontSize": 12},
    "axisX": {"grid": False, "labelPadding": 8, "labelAngle": 0},
    "axisY": {"gridColor": "#e3e8ee"},
    "legend": {"labelColor": _QUIET, "labelFontSize": 12, "symbolOpacity": 1, "orient": "top"},
}

_ONCE = {"data": {"values": [{}]}}


class Dot(NamedTuple):
    """A published step: its chip, kind, model, how far the estimate is off in percent, on how many
    chips, and whether a constant was fitted to it.
    """

    chip: str
    kind: str
    model: str
    error: float
    chips: int
    fitted: bool


def _far(dots: Sequence[Dot]) -> dict[Dot, tuple[int, float]]:
    """Returns the number of each dot outside of the band, the longest estimate first, and its place
    aside: those of a chip from left to right, evenly, so that numbers do not overlap.
    """
    out = sorted((each for each in dots if abs(each.error) > _WITHIN), key=lambda d: -d.error)
    numbers, found = {each: at for at, each in enumerate(out, 1)}, {}
    for _, group in groupby(
        sorted(out, key=lambda d: (d.chip, d.error > 0, -d.error)), lambda d: (d.chip, d.error > 0)
    ):
        near = list(group)
        for at, each in enumerate(near):
            found[each] = numbers[each], 2.9 * (at + 0.5) / len(near) - 1.45
    return found


def _values(dots: Sequence[Dot]) -> list[dict[str, Any]]:
    draw, far, counts = random.Random(0), _far(dots), Counter(map(_kind, dots))
    values: list[dict[str, Any]] = []
    for each in dots:
        near = [(v["aside"], v["error"]) for v in values if v["chip"] == each.chip]
        drawn = [draw.uniform(-1, 1) for _ in range(_DRAWS)]
        clear = max(
            drawn, key=lambda at: min((_apart(at, each.error, *v) for v in near), default=9)
        )
        number, aside = far.get(each, ("", clear))
        values.append(
            {"chip": each.chip, "kind": f"{_kind(each)} ({counts[_kind(each)]})"}
            | {"error": each.error, "aside": aside, "number": str(number)}
            | {"fitted": each.fitted}
        )
    return values


def _apart(aside: float, error: float, other: float, its: float) -> float:
    """How far apart two dots of a chip are, in dots, up to where it no longer matters."""
    return min(2.0, math.hypot(3.7 * (aside - other), 0.65 * (error - its)))


def _kind(dot: Dot) -> str:
    return dot.kind if dot.kind in _COLORS else "dense"  # a GPU is no kind of plan


def _within(dots: Sequence[Dot]) -> dict[str, str]:
    """Returns how many steps of each chip are inside of the band, of how many."""
    every = Counter(each.chip for each in dots)
    near = Counter(each.chip for each in dots if abs(each.error) <= _WITHIN)
    return {chip: f"{near[chip]} of {many} within" for chip, many in every.items()}


def _misses(dots: Sequence[Dot]) -> str:
    """Returns the model and chip of several steps outside of the band, where there are such, and the
    chips of which all are.
    """
    out = [each for each in dots if abs(each.error) > _WITHIN]
    far, every = Counter((each.model, each.chip) for each in out), Counter(d.chip for d in dots)
    ((model, chip), many), *_ = far.most_common(1) or [(("", ""), 0)]
    misses = [f"{many} of {far.total()} are {model} on {chip}"] * (many > 1)
    for chip in dict.fromkeys(each.chip for each in out):
        errors = [each.error for each in out if each.chip == chip]
        if len(errors) == every[chip]:
            whole = "both" if len(errors) == 2 else f"all {len(errors)}"
            ends = dict.fromkeys(_signed(end, 0) for end in (max(errors), min(errors)))
            by = (" and " if len(errors) == 2 else " to ").join(ends)
            misses.append(f"{whole} on {chip}, by {by}")
    return f" Outside: {'; '.join(misses)}." if misses else ""


def _counted(dots: Sequence[Dot]) -> tuple[int, int]:
    """Returns how many of some steps are inside of the band, and how many these are."""
    return sum(abs(each.error) <= _WITHIN for each in dots), len(dots)


def _fitted(dots: Sequence[Dot]) -> str:
    """Returns how many steps are no test, and how many of these and of all are inside of the band."""
    inside, count = _counted([each for each in dots if each.fitted])
    most, every = _counted(dots)
    return (
        f" Hollow: {count} more to which a constant was fitted, {inside} within {_WITHIN}%;"
        f" {most} of all {every}."
    )


def _signed(percent: float, digits: int = 1) -> str:
    return f"{percent:+.{digits}f}%".replace("-", "\N{MINUS SIGN}")


def _named(dots: Sequence[Dot]) -> dict[str, Any]:
    rows = [
        {
            "row": number,
            "number": str(number),
            "name": f"{each.model} on {each.chips:,} {each.chip}"
            + ", with Tokamax" * (each.kind == "other kernel"),
            "by": _signed(each.error),
        }
        for each, (number, _) in _far(dots).items()
    ]
    y = {"field": "row", "type": "ordinal", "axis": None}
    columns = (("number", 14, "right"), ("name", 24, "left"), ("by", 312, "right"))
    return {
        "data": {"values": rows},
        "width": 312,
        "height": {"step": 21},
        "layer": [
            {
                "mark": {"type": "text", "x": x, "align": align, "color": _INK, "fontSize": 12}
                | ({"fontWeight": 600} if field == "number" else {}),
                "encoding": {"y": y, "text": {"field": field}},
            }
            for field, x, align in columns
        ],
    }


def errors_chart(dots: Sequence[Dot]) -> dict[str, Any]:
    """Returns a dot for each step by chip, within a band; those outside of it are numbered, and named
    beside it.
    """
    within, count = _counted([each for each in dots if not each.fitted])
    counts = Counter(map(_kind, dots))
    kinds = {
        "domain": [f"{kind} ({counts[kind]})" for kind in _COLORS if counts[kind]],
        "range": [color for kind, color in _COLORS.items() if counts[kind]],
    }
    below = {"labelExpr": f"[datum.label, {json.dumps(_within(dots))}[datum.label]]"}
    x = {"field": "chip", "type": "nominal", "title": None, "sort": _CHIPS, "axis": below}
    y = {"field": "error", "type": "quantitative", "title": None, "scale": {"domainMin": -24}}
    y |= {
        "axis": {
            "tickCount": 6,
            "labelExpr": "(datum.value ? format(datum.value, '+') : '0') + '%'",
        }
    }
    aside = {"field": "aside", "type": "quantitative", "scale": {"domain": [-1.5, 1.5]}}
    placed = {"x": x, "xOffset": aside, "y": y}
    color = {"field": "kind", "type": "nominal", "title": None, "scale": kinds}
    hollow = {"condition": {"test": "datum.fitted", "value": "#ffffff"}} | color
    band = {"y": {"datum": -_WITHIN}, "y2": {"datum": _WITHIN}}
    above = {"expr": f"datum.error > 0 ? {1 - _APART} : {_APART}"}
    number = {"type": "text", "dy": above, "color": _INK, "fontSize": 11, "fontWeight": 600}
    chart = {
        "data": {"values": _values(dots)},
        "width": {"step": 110},
        "height": 340,
        "layer": [
            _ONCE
            | {
                "mark": {"type": "rect", "color": _COLORS["dense"], "opacity": 0.1},
                "encoding": band,
            },
            _ONCE | {"mark": {"type": "rule", "color": "#a3adba"}, "encoding": {"y": {"datum": 0}}},
            {
                "mark": {"type": "point", "size": 55, "opacity": 0.8},
                "encoding": placed | {"stroke": color, "fill": hollow},
            },
            {"mark": number, "encoding": placed | {"text": {"field": "number"}}},
        ],
    }
    return {
        "title": {
            "text": f"{within} of {count} estimates are within {_WITHIN}% of a published step",
            "subtitle": [
                "Estimate over published step: + is estimated longer than published,"
                f" \N{MINUS SIGN} shorter.{_fitted(dots)}",
                _misses(dots).strip(),
            ],
        },
        "hconcat": [chart, _named(dots)],
        "spacing": 30,
        "config": _CONFIG,
    }

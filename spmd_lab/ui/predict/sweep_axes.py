"""The axes that a sweep's charts share, and a curve over them; Vega-Lite as dicts."""

import math
from collections.abc import Sequence

from spmd_core.surveys import axis_title
from spmd_core.sweeps import Sweep, SweepRow
from spmd_lab.ui.charts.base import (
    CONFIG,
    QUIET,
    Row,
    Spec,
    category,
    hover,
    layer,
    layered,
    quantity,
)

HEIGHT_PX = 250
LEGEND_PX = 22
_LOG_FROM = 8  # the largest value over the smallest: from here on the x axis is logarithmic
TOO_LARGE = ("too large", "does not fit")  # states of a point
CROSSED = "#e45756"  # readable on a light and on a dark page
OWN = category("kind", ["all"])  # the theme's first color
POINT = {"type": "point", "size": 55, "opacity": 1}
_RANGE_BAR = {"type": "rule", "strokeWidth": 2.5, "opacity": 0.55}
_BAND = {"type": "area", "opacity": 0.13}
HEADING: Spec = {"anchor": "start", "fontSize": 13, "fontWeight": 600, "offset": 8}
CONFIG_OF_SWEEP: Spec = CONFIG | {"axis": CONFIG["axis"] | {"tickCount": 4}}


def place(sweep: Sweep, row: SweepRow) -> Row:
    """Where a row is on the x axis."""
    return {
        "x": row.point.label if sweep.is_categorical else row.point.value,
        "label": row.point.label,
        "kind": "all",
    }


def value_of(
    sweep: Sweep, row: SweepRow, y: float, low: float | None, high: float | None, text: str
) -> Row:
    """A point of a curve: its place, its value within an interval, and the words on hover."""
    return {
        **place(sweep, row),
        "y": y,
        "text": f"{text}, estimated" if row.is_estimated else text,
        "estimated": row.is_estimated,
        **({} if low is None or high is None else {"low": low, "high": high}),
    }


def is_steep(values: Sequence[float]) -> bool:
    """Whether values differ so much that their axis is to be logarithmic."""
    return bool(values) and min(values) > 0 and max(values) > 20 * min(values)


def x_axis(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """The x axis that all charts of a sweep share: every point that can be has its place, predicted
    or not.
    """
    able = [row.point for row in rows if row.point.experiment is not None]
    if sweep.is_categorical:
        labels = [point.label for point in able]
        return {
            "field": "x",
            "type": "nominal",
            "sort": labels,
            "scale": {"domain": labels},
            "title": axis_title(sweep),
            "axis": {
                "labelAngle": -25 if sum(map(len, labels)) > 40 else 0,
                "labelLimit": 130,
                "grid": False,
            },
        }
    places = sorted({float(point.value) for point in able})
    log = len(places) > 1 and places[-1] >= _LOG_FROM * places[0]
    scale: Spec = {"type": "log", "base": 2} if log else {"zero": False}
    if len(places) > 1:
        scale |= {"domain": [places[0], places[-1]], "nice": False, "padding": 12}
    lost = [
        float(row.point.value)
        for row in rows
        if row.outcome.state in TOO_LARGE or row.numbers.fit == "does not fit"
    ]
    return quantity(
        "x",
        title=axis_title(sweep) + (", logarithmic" if log else ""),
        scale=scale,
        axis=_axis(sorted({*_ticks(places, log), *lost}), f"indexof({lost}, datum.value) >= 0"),
    )


def _axis(ticks: Sequence[float], is_lost: str) -> Spec:
    """Labels of the places; red where nothing fits, by an expression of Vega."""
    return {
        "values": ticks,
        "tickCount": max(1, len(ticks)),
        "format": ",.8~r",  # of few digits the default would round 2,048
        "labelOverlap": "greedy",  # of narrow windows
        "labelSeparation": 3,
        "labelFontSize": 11,
        "labelExpr": f"{is_lost} ? [datum.label, 'no fit'] : datum.label",
        "labelColor": {"condition": {"test": is_lost, "value": CROSSED}, "value": QUIET},
    }


def _ticks(places: Sequence[float], log: bool) -> list[float]:
    """The places that have room for a label: the first and the last, and between them those a tenth
    of the axis from their neighbors.
    """
    scaled = [math.log(place) if log else place for place in places]
    apart = (scaled[-1] - scaled[0]) / 10 if scaled else 0.0
    kept: list[int] = []
    for at in range(len(places)):
        if not kept or (
            scaled[at] - scaled[kept[-1]] >= apart
            and (at == len(places) - 1 or scaled[-1] - scaled[at] >= apart)
        ):
            kept.append(at)
    if len(places) > 1 and kept[-1] != len(places) - 1:
        kept.append(len(places) - 1)
    return [places[at] for at in kept]


def tips(sweep: Sweep, title: str) -> list[Spec]:
    """What a point shows on hover: where it is on the x axis, and its value."""
    return hover(label=axis_title(sweep), text=title)


def curve(
    sweep: Sweep,
    rows: Sequence[SweepRow],
    values: Sequence[Row],
    title: str,
    *,
    zero: bool = False,
    log: bool = False,
) -> Spec:
    """Points in the order of the x axis, joined where that has an order, with their intervals as a
    band or as bars: filled what was compiled, hollow what is estimated.
    """
    scale: Spec = {"type": "log"} if log else {"zero": zero}
    if zero and values and not any(value["y"] for value in values):
        scale = {"domain": [0, 1]}  # of nothing but zeros there is no axis
    y = quantity("y", title=None, scale=scale, axis={"tickCount": 4})
    x = x_axis(sweep, rows)
    on_curve = {"x": x, "y": y, "color": OWN}
    layers = []
    if not sweep.is_categorical:  # one line of both
        dash = {"strokeDash": [5, 4]} if any(value.get("estimated") for value in values) else {}
        layers.append(layer(values, {"type": "line", "strokeWidth": 2, **dash}, **on_curve))
    for estimated in (True, False):  # dashed and hollow where nothing was compiled
        points = [value for value in values if value.get("estimated", False) == estimated]
        if spans := [value for value in points if "low" in value]:
            wide = [value for value in spans if value["low"] != value["high"]]
            is_bar = sweep.is_categorical or len(wide) < 2  # a band of one would be a diamond
            mark, spans = (_RANGE_BAR, wide or spans) if is_bar else (_BAND, spans)
            low, high = y | {"field": "low"}, {"field": "high"}
            layers.append(layer(spans, mark, x=x, y=low, y2=high, color=OWN))
        mark = POINT | {"filled": not estimated}
        layers.append(layer(points, mark, **on_curve, tooltip=tips(sweep, title)))
    above = HEADING | {"text": title + (", logarithmic" if log else "")}
    if any(value.get("estimated") for value in values):
        above |= {"subtitle": "○ estimated", "subtitleColor": QUIET}
    return layered(layers, HEIGHT_PX, encoding={"x": x, "y": y}, title=above) | {
        "config": CONFIG_OF_SWEEP
    }

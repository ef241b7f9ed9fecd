"""The axes that a sweep's charts share, and a curve over them; Vega-Lite as dicts."""

import math
from collections.abc import Sequence
from typing import Any

from spmd_core.search import Sweep, SweepRow
from spmd_core.words import axis_title
from ui.charts.base import CONFIG, Spec

HEIGHT_PX = 250
LEGEND_PX = 22
_LOG_FROM = 8  # the largest value over the smallest: from here on the x axis is logarithmic
CROSSED = "#e45756"  # readable on a light and on a dark page
# the theme's first colour
OWN: Spec = {"field": "kind", "type": "nominal", "scale": {"domain": ["all"]}, "legend": None}
CONFIG_OF_SWEEP: Spec = CONFIG | {"axis": CONFIG["axis"] | {"tickCount": 4}}


def place(sweep: Sweep, row: SweepRow) -> dict[str, Any]:
    """Where a row is on the x axis."""
    return {
        "x": row.point.label if sweep.is_categorical else row.point.value,
        "label": row.point.label,
        "kind": "all",
    }


def value_of(
    sweep: Sweep, row: SweepRow, y: float, low: float | None, high: float | None, text: str
) -> dict[str, Any]:
    """A point of a curve: its place, its value within an interval, and the words on hover."""
    guessed = {"said": f"{text}, estimated"} if row.is_estimated else {"said": text}
    span = {} if low is None or high is None else {"low": low, "high": high}
    return {**place(sweep, row), "y": y, "estimated": row.is_estimated} | guessed | span


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
    scale |= (
        {"domain": [places[0], places[-1]], "nice": False, "padding": 12} if len(places) > 1 else {}
    )
    ticks = _ticks(places, log)
    return {
        "field": "x",
        "type": "quantitative",
        "title": axis_title(sweep) + (", logarithmic" if log else ""),
        "scale": scale,
        "axis": {
            "values": ticks,
            "tickCount": max(1, len(ticks)),
            "format": ",~r",
            "labelOverlap": False,
            "labelFontSize": 11,
        },
    }


def _ticks(places: Sequence[float], log: bool) -> list[float]:
    """The places that have room for a label: the first and the last, and between them those a tenth
    of the axis from their neighbours.
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


def curve(
    sweep: Sweep,
    rows: Sequence[SweepRow],
    values: list[dict[str, Any]],
    title: str,
    *,
    zero: bool = False,
    log: bool = False,
) -> Spec:
    """Points in the order of the x axis, joined where that has an order, with their intervals as a
    band or as bars.
    """
    y: Spec = {
        "field": "y",
        "type": "quantitative",
        "title": None,
        "scale": {"type": "log"} if log else {"zero": zero},
        "axis": {"tickCount": 4},
    }
    if zero and values and not any(value["y"] for value in values):
        y["scale"] = {"domain": [0, 1]}  # of nothing but zeros there is no axis
    x = x_axis(sweep, rows)
    tips = {
        "tooltip": [
            {"field": "label", "title": axis_title(sweep)},
            {"field": "said", "title": title},
        ]
    }
    spans = [value for value in values if "low" in value]
    ranged = {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}}
    band = (
        {"type": "rule", "strokeWidth": 2.5, "opacity": 0.55}
        if sweep.is_categorical or len(spans) == 1
        else {"type": "area", "opacity": 0.2}
    )
    layers = (
        [{"data": {"values": spans}, "mark": band, "encoding": {**ranged, "color": OWN}}]
        if spans
        else []
    )
    point = {"type": "point", "filled": True, "size": 55, "opacity": 1}
    if not sweep.is_categorical:
        layers.append(
            {
                "data": {"values": values},
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {"x": x, "y": y, "color": OWN},
            }
        )
    for guessed in (True, False):  # hollow where nothing was compiled
        layers.append(
            {
                "data": {
                    "values": [
                        value for value in values if value.get("estimated", False) == guessed
                    ]
                },
                "mark": point | {"filled": not guessed},
                "encoding": {"x": x, "y": y, "color": OWN, **tips},
            }
        )
    heading = {
        "text": title + (", logarithmic" if log else ""),
        "anchor": "start",
        "fontSize": 13,
        "fontWeight": 600,
        "offset": 8,
    }
    return {
        "layer": layers,
        "encoding": {"x": x, "y": y},
        "title": heading,
        "height": HEIGHT_PX,
        "config": CONFIG_OF_SWEEP,
    }

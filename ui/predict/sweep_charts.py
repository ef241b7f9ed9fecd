"""A sweep's curves as charts that share their x axis; Vega-Lite as dicts, nothing is drawn here."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from spmd_core.base import bytes_text, seconds_text
from spmd_core.search import Sweep, SweepRow
from spmd_core.words import axis_title
from ui.charts.base import BYTES, CONFIG, SECONDS, Spec, unit

HEIGHT_PX = 250
_LEGEND_PX = 22
MAX_KINDS = 3  # of collectives, in the chart of exposed communication
_LOG_FROM = 8  # the largest value over the smallest: from here on the x axis is logarithmic
_CROSSED = "#e45756"  # readable on a light and on a dark page
# the theme's first colour
_OWN: Spec = {"field": "kind", "type": "nominal", "scale": {"domain": ["all"]}, "legend": None}
_CONFIG: Spec = CONFIG | {"axis": CONFIG["axis"] | {"tickCount": 4}}


def step_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Seconds of a step: the estimate within its interval."""
    size, name = unit([row.numbers.step_s for row in rows if row.numbers.step_s], SECONDS)
    values = [
        _value(
            sweep,
            row,
            row.numbers.step_s / size,
            (row.numbers.low_s or 0.0) / size,
            (row.numbers.high_s or 0.0) / size,
            seconds_text(row.numbers.step_s),
        )
        for row in rows
        if row.numbers.step_s
    ]
    steep = _is_steep([value["y"] for value in values])
    return _chart(sweep, rows, values, f"Time of a step ({name})", zero=not steep, log=steep)


def mfu_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Model FLOPs utilization in percent, with what the step's interval makes of it."""
    values = [
        _value(
            sweep,
            row,
            100 * row.numbers.mfu,
            100 * span[0],
            min(100.0, 100 * span[1]),
            f"{row.numbers.mfu:.1%}",
        )
        for row in rows
        if row.numbers.mfu is not None and (span := row.mfu_interval)
    ]
    return _chart(sweep, rows, values, "MFU (%)", zero=True)


def rate_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Tokens per second and chip."""
    values = []
    for row in rows:
        found = row.numbers
        if found.tokens_per_s_per_chip and found.step_s and found.low_s and found.high_s:
            rate = found.tokens_per_s_per_chip
            values.append(
                _value(
                    sweep,
                    row,
                    rate,
                    rate * found.step_s / found.high_s,
                    rate * found.step_s / found.low_s,
                    f"{rate:,.0f}",
                )
            )
    return _chart(sweep, rows, values, "Tokens per second and chip", zero=True)


def efficiency_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Useful work per chip and second over that of the smallest point, in percent."""
    values = [
        _value(sweep, row, 100 * row.efficiency, None, None, f"{row.efficiency:.1%}")
        for row in rows
        if row.efficiency is not None
    ]
    title = (
        "Scaling efficiency (%)"
        if sweep.variable.scales
        else "Work per chip and second (first = 100 %)"
    )
    return _chart(sweep, rows, values, title, zero=True)


def memory_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Peak per device by the compiler, the estimate from the sizes where it has not said yet, and
    the capacity; crosses do not fit.
    """
    size, name = unit(
        [float(row.point.capacity_bytes) for row in rows if row.point.capacity_bytes], BYTES
    )
    values, guessed, crossed, capacity = [], [], [], []
    for row in rows:
        point, peak = row.point, row.numbers.peak_bytes
        if point.experiment is None:
            continue
        limit = point.capacity_bytes / size
        capacity.append(
            {
                **_place(sweep, row),
                "y": limit,
                "said": f"capacity {bytes_text(point.capacity_bytes)}",
            }
        )
        if row.outcome.state in ("too large", "does not fit"):
            needed = peak if peak is not None else point.expected_bytes
            told = "" if needed is None else f"{bytes_text(needed)} needed, "
            crossed.append(
                {
                    **_place(sweep, row),
                    "y": limit,
                    "said": f"does not fit: {told}capacity {bytes_text(point.capacity_bytes)}",
                }
            )
        elif peak is not None and not row.is_estimated:
            values.append(
                _value(sweep, row, peak / size, None, None, f"{bytes_text(peak)} by the compiler")
            )
        elif point.expected_bytes is not None:
            guessed.append(
                {
                    **_place(sweep, row),
                    "y": point.expected_bytes / size,
                    "said": f"{bytes_text(point.expected_bytes)} by its sizes",
                }
            )
    chart = _chart(sweep, rows, values, f"Memory per device ({name})", zero=True)
    x, y = chart["encoding"]["x"], chart["encoding"]["y"]
    # a cross is not cut off
    y["scale"]["domainMax"] = 1.1 * max(
        (value["y"] for value in (*capacity, *values, *guessed)), default=1.0
    )
    tips = {
        "tooltip": [
            {"field": "label", "title": axis_title(sweep)},
            {"field": "said", "title": "memory"},
        ]
    }
    line = (
        {"type": "tick", "width": 34, "thickness": 2}
        if sweep.is_categorical
        else {"type": "line", "strokeDash": [5, 4], "strokeWidth": 1.5}
    )
    chart["layer"] = [
        {
            "data": {"values": capacity},
            "mark": {**line, "color": _CROSSED},
            "encoding": {"x": x, "y": y, **tips},
        },
        *chart["layer"],
        {
            "data": {"values": guessed},
            "mark": {"type": "point", "filled": False, "size": 55},
            "encoding": {"x": x, "y": y, "color": _OWN, **tips},
        },
        {
            "data": {"values": crossed},
            "mark": {
                "type": "point",
                "shape": "cross",
                "angle": 45,
                "filled": True,
                "size": 110,
                "color": _CROSSED,
            },
            "encoding": {"x": x, "y": y, **tips},
        },
    ]
    return chart


def exposed_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Share of the step that collectives take which nothing hides, in percent: all of them, and the
    largest kinds.
    """
    totals: dict[str, float] = {}
    for row in rows:
        for kind, seconds in row.numbers.exposed_s.items():
            totals[kind] = totals.get(kind, 0.0) + seconds / (row.numbers.step_s or math.inf)
    kinds = sorted(totals, key=lambda kind: -totals[kind])[:MAX_KINDS]
    values = []
    for row in rows:
        if row.exposed_share is None or not row.numbers.step_s:
            continue
        shares = {"all": row.exposed_share}
        if len(totals) > 1:
            shares |= {
                kind: row.numbers.exposed_s.get(kind, 0.0) / row.numbers.step_s for kind in kinds
            }
        values += [
            _value(sweep, row, 100 * share, None, None, f"{share:.1%}") | {"kind": kind}
            for kind, share in shares.items()
        ]
    chart = _chart(sweep, rows, values, "Exposed communication (% of step)", zero=True)
    order = ["all", *kinds] if len(totals) > 1 else ["all"]
    colour = {
        "field": "kind",
        "type": "nominal",
        "sort": order,
        "scale": {"domain": order},
        "legend": {"orient": "top", "title": None, "columns": 4, "labelLimit": 110}
        if len(order) > 1
        else None,
    }
    for layer in chart["layer"]:
        layer["encoding"] = {**layer["encoding"], "color": colour}
    return chart | ({"height": HEIGHT_PX + _LEGEND_PX} if len(order) > 1 else {})


CHARTS: dict[str, Callable[[Sweep, Sequence[SweepRow]], Spec]] = {
    "Time of a step": step_chart,
    "MFU": mfu_chart,
    "Memory": memory_chart,
    "Exposed communication": exposed_chart,
    "Tokens": rate_chart,
    "Efficiency": efficiency_chart,
}


def charts_of(sweep: Sweep, rows: Sequence[SweepRow]) -> dict[str, Spec]:
    """The charts that have something to show, by name."""
    drawn = {name: make(sweep, rows) for name, make in CHARTS.items()}
    return {
        name: chart
        for name, chart in drawn.items()
        if any(layer["data"]["values"] for layer in chart["layer"])
    }


def chart_alt(name: str, sweep: Sweep, rows: Sequence[SweepRow]) -> str:
    """A chart in words: the value of every point."""
    words: dict[str, Callable[[SweepRow], str | None]] = {
        "Time of a step": lambda row: (
            seconds_text(row.numbers.step_s) if row.numbers.step_s else None
        ),
        "MFU": lambda row: f"{row.numbers.mfu:.1%}" if row.numbers.mfu is not None else None,
        "Memory": _memory_words,
        "Exposed communication": lambda row: (
            f"{row.exposed_share:.1%}" if row.exposed_share is not None else None
        ),
        "Tokens": lambda row: (
            f"{row.numbers.tokens_per_s_per_chip:,.0f} per second and chip"
            if row.numbers.tokens_per_s_per_chip
            else None
        ),
        "Efficiency": lambda row: f"{row.efficiency:.1%}" if row.efficiency is not None else None,
    }
    told = "; ".join(f"{row.point.label}: {said}" for row in rows if (said := words[name](row)))
    return f"{name} by {axis_title(sweep)}: {told or 'nothing yet'}"


def _memory_words(row: SweepRow) -> str | None:
    if row.outcome.state in ("too large", "does not fit"):
        return "does not fit"
    count = (
        row.numbers.peak_bytes if row.numbers.peak_bytes is not None else row.point.expected_bytes
    )
    return bytes_text(count) if count is not None else None


def _place(sweep: Sweep, row: SweepRow) -> dict[str, Any]:
    return {
        "x": row.point.label if sweep.is_categorical else row.point.value,
        "label": row.point.label,
        "kind": "all",
    }


def _value(
    sweep: Sweep, row: SweepRow, y: float, low: float | None, high: float | None, said: str
) -> dict[str, Any]:
    guessed = {"said": f"{said}, estimated"} if row.is_estimated else {"said": said}
    span = {} if low is None or high is None else {"low": low, "high": high}
    return {**_place(sweep, row), "y": y, "estimated": row.is_estimated} | guessed | span


def _is_steep(values: Sequence[float]) -> bool:
    return bool(values) and min(values) > 0 and max(values) > 20 * min(values)


def _x_axis(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
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


def _chart(
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
    x = _x_axis(sweep, rows)
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
        [{"data": {"values": spans}, "mark": band, "encoding": {**ranged, "color": _OWN}}]
        if spans
        else []
    )
    point = {"type": "point", "filled": True, "size": 55, "opacity": 1}
    if not sweep.is_categorical:
        layers.append(
            {
                "data": {"values": values},
                "mark": {"type": "line", "strokeWidth": 2},
                "encoding": {"x": x, "y": y, "color": _OWN},
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
                "encoding": {"x": x, "y": y, "color": _OWN, **tips},
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
        "config": _CONFIG,
    }

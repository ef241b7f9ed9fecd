"""A sweep of collectives as a chart: bandwidth or time over bytes, both logarithmic."""

from collections.abc import Iterable, Sequence
from typing import Any

from spmd_core.base import bytes_text, seconds_text
from spmd_core.experiment import TRANSFERS
from spmd_core.results import Point
from spmd_core.time import fits
from spmd_core.words import kind_title, rate_words
from ui.charts.base import CONFIG, Spec

BUS, ALGORITHM, TIME = QUANTITIES = ("Bus bandwidth", "Algorithm bandwidth", "Time")
_TITLES = {BUS: "bus bandwidth (GB/s)", ALGORITHM: "algorithm bandwidth (GB/s)", TIME: "time (µs)"}
MEASURED, PREDICTED, BESIDE = "measured", "predicted", "the other run"
_HEIGHT_PX = 380


def sweep_chart(points: Sequence[Point], beside: Sequence[Point], quantity: str) -> Spec:
    """A line for each kind: measured with points, predicted dashed, another run dotted; a tick
    where latency and bandwidth take equally long.
    """
    rows = [
        *_rows(points, MEASURED, quantity),
        *_rows(points, PREDICTED, quantity),
        *_rows(beside, BESIDE, quantity),
    ]
    order = list(dict.fromkeys(row["kind"] for row in rows))
    lines = [
        name for name in (MEASURED, PREDICTED, BESIDE) if any(row["line"] == name for row in rows)
    ]
    x = {
        "field": "bytes",
        "type": "quantitative",
        "title": "bytes",
        "scale": {"type": "log", "base": 2, "nice": False},
        "axis": {"labelExpr": _BYTES, "tickCount": 8},
    }
    y = {
        "field": "y",
        "type": "quantitative",
        "title": _TITLES[quantity],
        "scale": {"type": "log"},
        "axis": {"format": ".3~g", "tickCount": 6},
    }
    color = {
        "field": "kind",
        "type": "nominal",
        "sort": order,
        "scale": {"domain": order},
        "legend": {"orient": "top", "title": None, "columns": 2, "symbolStrokeWidth": 3},
    }
    dash = {
        "field": "line",
        "type": "nominal",
        "sort": lines,
        "scale": {"domain": lines, "range": [_DASHES[name] for name in lines]},
        "legend": {"orient": "top", "title": None} if len(lines) > 1 else None,
    }
    tooltip = [
        {"field": "kind", "title": "collective"},
        {"field": "line", "title": "is"},
        {"field": "size", "title": "bytes"},
        {"field": "time", "title": "time"},
        {"field": "bus", "title": "bus bandwidth"},
    ]
    encoding = {"x": x, "y": y, "color": color}
    layers: list[Spec] = [
        {
            "data": {"values": rows},
            "mark": {"type": "line", "strokeWidth": 2, "opacity": 0.85},
            "encoding": encoding | {"strokeDash": dash},
        },
        {
            "data": {"values": [row for row in rows if row["line"] != PREDICTED] or rows},
            "mark": {"type": "point", "filled": True, "size": 45},
            "encoding": encoding | {"tooltip": tooltip},
        },
    ]
    if knees := _knees(points):
        layers.append(
            {
                "data": {"values": knees},
                "mark": {"type": "rule", "strokeDash": [2, 3], "opacity": 0.6},
                "encoding": {
                    "x": x,
                    "color": color,
                    "tooltip": [
                        {"field": "kind", "title": "knee of"},
                        {"field": "size", "title": "at"},
                    ],
                },
            }
        )
    return {"layer": layers, "height": _HEIGHT_PX, "config": CONFIG}


_DASHES = {MEASURED: [1, 0], PREDICTED: [6, 4], BESIDE: [2, 2]}
_BYTES = (
    "datum.value >= 1073741824 ? datum.value / 1073741824 + ' GiB' : "
    "datum.value >= 1048576 ? datum.value / 1048576 + ' MiB' : "
    "datum.value >= 1024 ? datum.value / 1024 + ' KiB' : datum.value + ' B'"
)


def _rows(points: Iterable[Point], line: str, quantity: str) -> list[dict[str, Any]]:
    rows = []
    for point in points:
        seconds = point.predicted_s if line == PREDICTED else point.time_s
        if line == BESIDE:
            seconds = seconds or point.predicted_s
        if not seconds:
            continue
        bus = point.bytes / seconds * TRANSFERS[point.kind].bus_factor(point.devices)
        y = {BUS: bus / 1e9, ALGORITHM: point.bytes / seconds / 1e9, TIME: seconds * 1e6}[quantity]
        rows.append(
            {
                "kind": kind_title(point.kind),
                "line": line,
                "bytes": point.bytes,
                "y": y,
                "size": bytes_text(point.bytes),
                "time": seconds_text(seconds),
                "bus": rate_words(bus),
            }
        )
    return rows


def _knees(points: Sequence[Point]) -> list[dict[str, Any]]:
    """Where latency and bandwidth take equally long, within the sizes that were measured."""
    most = max((point.bytes for point in points), default=0)
    return [
        {"kind": kind_title(fit.kind), "bytes": fit.knee_bytes, "size": bytes_text(fit.knee_bytes)}
        for fit in fits(points)
        if 0 < fit.knee_bytes <= most
    ]


def sweep_alt(points: Sequence[Point], quantity: str) -> str:
    """The chart in words: of each kind its smallest and its largest size."""
    words = seconds_text if quantity == TIME else rate_words
    told = []
    for kind in dict.fromkeys(point.kind for point in points):
        rows = [row for row in points if row.kind == kind and (row.time_s or row.predicted_s)]
        if rows:
            first, last = (_value(row, quantity) for row in (rows[0], rows[-1]))
            told.append(
                f"{kind_title(kind)} {words(first)} at {bytes_text(rows[0].bytes)}, "
                f"{words(last)} at {bytes_text(rows[-1].bytes)}"
            )
    return f"{quantity} by bytes: {'; '.join(told)}"


def _value(point: Point, quantity: str) -> float:
    seconds = point.time_s or point.predicted_s or float("inf")
    if quantity == TIME:
        return seconds
    factor = TRANSFERS[point.kind].bus_factor(point.devices) if quantity == BUS else 1.0
    return point.bytes / seconds * factor

"""The chart of times per call: every sample, median and interval of each strategy."""

import math
from dataclasses import dataclass
from typing import Any

from spmd_core.base import seconds_text
from spmd_core.results import Result, StrategyResult
from spmd_core.words import title
from ui.charts.base import CONFIG, INK, LABELS, SECONDS, Spec, unit

_ROW_PX = 58
_LOG_FROM = 20.0  # the slowest over the fastest: from here on, bars from zero hide the fast ones
_FAR, _WIDEST = 1.5, 3.0  # the end of the axis over the slowest median: of samples, of intervals


@dataclass(frozen=True, slots=True)
class _Row:
    """One timed row of the chart, in seconds."""

    label: str
    samples: tuple[float, ...]
    outliers: frozenset[int]
    median: float
    interval: tuple[float, float]


def times_chart(result: Result) -> Spec | None:
    """Time per call by strategy: samples as ticks, the median as a bar, its 95 % interval as a
    thick line; None where nothing was timed.

    Samples beyond the axis are drawn at its end as triangles, with their true value on hover. The
    axis is logarithmic, and the bars left out, where the strategies are far apart.
    """
    rows = _rows(result)
    if not rows:
        return None
    size, name = unit([row.median for row in rows], SECONDS)
    log = max(row.median for row in rows) > _LOG_FROM * min(row.median for row in rows)
    axis = _axis(rows, size, log)
    title_ = f"time per call ({name})" + (", logarithmic" if log else "")
    x = {"field": "x", "type": "quantitative", "title": title_} | axis
    order = [row.label for row in rows]
    shared = {
        "y": {"field": "row", "type": "nominal", "sort": order, "title": None, "axis": LABELS},
        "color": {
            "field": "row",
            "type": "nominal",
            "sort": order,
            "scale": {"domain": order},
            "legend": None,
        },
    }
    medians = [_median_row(row, size) for row in rows]
    samples = [sample for row in rows for sample in _sample_rows(row, size)]
    end = axis["scale"]["domain"][1]
    layers = (
        []
        if log
        else [
            _layer(
                medians,
                {"type": "bar", "height": {"band": 0.5}, "opacity": 0.22, "cornerRadiusEnd": 3},
                shared | {"x": x, "x2": {"datum": 0}, "tooltip": _MEDIAN_HOVER},
            )
        ]
    )
    layers += [
        _layer(
            [row for row in samples if row["x"] <= end],
            {"type": "tick", "thickness": 1.2, "height": 16, "opacity": 0.55},
            shared | {"x": x, "tooltip": _SAMPLE_HOVER},
        ),
        _layer(
            [row for row in samples if row["x"] > end],
            {
                "type": "point",
                "shape": "triangle-right",
                "filled": True,
                "size": 60,
                "opacity": 0.9,
            },
            shared | {"x": x, "tooltip": _SAMPLE_HOVER},
        ),
        _layer(
            medians,
            {"type": "rule", "strokeWidth": 5, "strokeCap": "round"},
            shared | {"x": x | {"field": "low"}, "x2": {"field": "high"}, "tooltip": _MEDIAN_HOVER},
        ),
        _layer(
            medians,
            {"type": "text", "dy": -21, "align": "center", "fontWeight": 600, **INK},
            {"x": x, "y": shared["y"], "text": {"field": "time"}},
        ),
    ]
    return {"layer": layers, "height": {"step": _ROW_PX}, "config": CONFIG}


def times_alt(result: Result) -> str:
    """The chart in words."""
    return "Time per call by strategy, median of all samples: " + ", ".join(
        f"{row.label} {seconds_text(row.median)}" for row in _rows(result)
    )


_MEDIAN_HOVER = [
    {"field": "row", "title": "strategy"},
    {"field": "time", "title": "median"},
    {"field": "interval", "title": "95 % interval"},
]
_SAMPLE_HOVER = [
    {"field": "row", "title": "strategy"},
    {"field": "time", "title": "time"},
    {"field": "round", "title": "round"},
    {"field": "kind", "title": "is"},
]


def _rows(result: Result) -> list[_Row]:
    return [row for name, found in result.ordered for row in _rows_of(name, found)]


def _rows_of(name: str, found: StrategyResult) -> list[_Row]:
    """The timed rows of a strategy; `constrained` has two."""
    rows = []
    if found.samples_s and found.median_s is not None:
        label = title(name) + (" ✗ wrong values" if found.correct is False else "")
        rows.append(
            _Row(
                label,
                found.samples_s,
                frozenset(found.outliers),
                found.median_s,
                found.ci95_s or (found.median_s, found.median_s),
            )
        )
    again = found.from_unsharded
    if again is not None and again.samples_s and again.median_s is not None:
        rows.append(
            _Row(
                f"{title(name)}, from unsharded",
                again.samples_s,
                frozenset(),
                again.median_s,
                (again.median_s, again.median_s),
            )
        )
    return rows


def _axis(rows: list[_Row], size: float, log: bool) -> dict[str, Any]:
    """Scale and ticks of the time axis, in units of `size` seconds: all that is no outlier fits, up
    to _FAR times the slowest median. A single slow call would leave no room for the others.
    """
    inside = [
        sample / size
        for row in rows
        for at, sample in enumerate(row.samples)
        if at not in row.outliers
    ] + [row.median / size for row in rows]
    slowest = max(row.median for row in rows) / size
    known = max(row.interval[1] for row in rows) / size
    known = min(known, _WIDEST * slowest)
    low, high = min(inside), max(known, min(max(inside), _FAR * slowest))
    if not log:
        return {"scale": {"domain": [0, 1.06 * high], "nice": False, "clamp": True}}
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [
        step
        for decade in decades
        for step in (10.0**decade, 3 * 10.0**decade)
        if 0.8 * low <= step <= 1.15 * high
    ]
    return {
        "scale": {"type": "log", "domain": [0.8 * low, 1.15 * high], "nice": False, "clamp": True},
        "axis": {"values": steps},
    }


def _median_row(row: _Row, size: float) -> dict[str, Any]:
    low, high = row.interval
    return {
        "row": row.label,
        "x": row.median / size,
        "low": low / size,
        "high": high / size,
        "time": seconds_text(row.median),
        "interval": f"{seconds_text(low)} to {seconds_text(high)}",
    }


def _sample_rows(row: _Row, size: float) -> list[dict[str, Any]]:
    return [
        {
            "row": row.label,
            "x": sample / size,
            "round": at + 1,
            "time": seconds_text(sample),
            "kind": "outlier" if at in row.outliers else "sample",
        }
        for at, sample in enumerate(row.samples)
    ]


def _layer(values: list[dict[str, Any]], mark: dict[str, Any], encoding: dict[str, Any]) -> Spec:
    return {"data": {"values": values}, "mark": mark, "encoding": encoding}

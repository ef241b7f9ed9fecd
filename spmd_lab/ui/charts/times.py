"""The chart of times per call: every sample, median and interval of each strategy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from spmd_core.base import seconds_text, span_text
from spmd_core.results import Result
from spmd_core.terms import row_title, title
from spmd_lab.ui.charts import colors
from spmd_lab.ui.charts.base import (
    INK,
    INTERVAL,
    LABELS,
    SECONDS,
    Row,
    Spec,
    as_is,
    category,
    hover,
    layer,
    layered,
    markers,
    quantity,
    unit,
)

_ROW_PX = 60
_LOG_FROM = 20.0  # the slowest over the fastest: from here on, bars from zero hide the fast ones
_FAR, _WIDEST = 1.5, 3.0  # the end of the axis over the slowest median: of samples, of intervals
_BAR = {"type": "bar", "height": {"band": 0.5}, "opacity": 0.34, "cornerRadiusEnd": 3}
_BELOW_PX, _LOWEST_PX = (
    17,
    28,
)  # samples are under the bar, whose interval and median they would hide
_TICK = {"type": "tick", "thickness": 1.2, "height": 8, "yOffset": _BELOW_PX}
# opacity of a tick; of more than _FEW in a row each is fainter, which would hide its median else
_INK, _FEW = 0.55, 40
_MOST = 150  # ticks of a row: thousands of samples are megabytes, and a browser draws each
_TRIANGLE = {
    "type": "point",
    "shape": "triangle-right",
    "filled": True,
    "size": 40,
    "opacity": 0.9,
    "yOffset": _LOWEST_PX,
}
_FAR_LABEL = {"type": "text", "align": "right", "dx": -8, "fontSize": 11, "yOffset": _LOWEST_PX}
_NUMBER = {"type": "text", "dy": -21, "align": "center", "fontWeight": 600, **INK}
_TITLE, _MEANING = "time per call ({})", "median, 95% interval, samples below"
_AT_END = {"titleAnchor": "end"}  # to its left a narrow chart has the room of the labels, too
_MEDIAN_HOVER = hover(row="strategy", time="median", interval="95% interval")
_SAMPLE_HOVER = hover(row="strategy", time="time", round="round", kind="is")


@dataclass(frozen=True, slots=True)
class _Row:
    """One timed row of the chart, in seconds: the samples of every process, one after another;
    `outliers` are numbers of those of the first.
    """

    label: str
    title: str  # of its strategy or study row, which has one color and marker everywhere
    shape: str
    samples: tuple[float, ...]
    outliers: frozenset[int]
    median: float
    interval: tuple[float, float]


def times_chart(result: Result) -> Spec | None:
    """Time per call by strategy: samples as ticks, the median as a bar, its 95% interval as a
    thick line; None where nothing was timed.

    Samples beyond the axis are counted at its end, with the longest, and have a triangle there. The
    axis is logarithmic, and the bars left out, where the strategies are far apart.
    """
    rows = _rows(result)
    if not rows:
        return None
    size, name = unit([row.median for row in rows], SECONDS)
    log = max(row.median for row in rows) > _LOG_FROM * min(row.median for row in rows)
    axis = _axis(rows, size, log)
    x = quantity("x", title=[_TITLE.format(name) + ", logarithmic" * log, _MEANING], **axis)
    order = [row.label for row in rows]
    y = {"field": "row", "type": "nominal", "sort": order, "title": None, "axis": LABELS}
    shared = {
        "y": y,
        "color": category(
            "row", colors.domain(result.experiment, {row.label: row.title for row in rows})
        ),
    }
    of_median = {**shared, "tooltip": _MEDIAN_HOVER}
    of_sample = {**shared, "x": x, "tooltip": _SAMPLE_HOVER}
    medians = _median_rows(rows, size)
    end = axis["scale"]["domain"][1]
    inside = _sample_rows(rows, size, -math.inf, end)
    beyond = _sample_rows(rows, size, end, math.inf)
    interval = {"x": x | {"field": "low"}, "x2": {"field": "high"}}
    bars = [] if log else [layer(medians, _BAR, x=x, x2={"datum": 0}, **of_median)]
    layers = [
        *bars,
        layer(inside, _TICK, **of_sample, opacity=as_is("ink")),
        layer(beyond, _TRIANGLE, **of_sample),
        layer(_far_rows(rows, size, end), _FAR_LABEL | INK, x=x, y=y, text={"field": "label"}),
        layer(medians, INTERVAL, **interval, **of_median),
        *markers(medians, x=x, **of_median),
        layer(medians, _NUMBER, x=x, y=y, text={"field": "time"}),
    ]
    return layered(layers, {"step": _ROW_PX})


def times_alt(result: Result) -> str:
    """The chart in words."""
    return "Time per call by strategy, median of all samples: " + ", ".join(
        f"{row.label} {seconds_text(row.median)}" for row in _rows(result)
    )


def _rows(result: Result) -> list[_Row]:
    """Returns the timed rows; what runs from unsharded operands is in the table alone."""
    return [
        _Row(
            row_title(result, name) + (" ✗ wrong values" if each.correct is False else ""),
            title(name),
            colors.shape(result.experiment, name),
            (*each.samples_s, *further),
            frozenset(each.outliers),
            median,
            each.ci95_s or (median, median),
        )
        for name, each in result.ordered
        if each.samples_s and (median := each.median_s) is not None
        for further in [[call for turns in each.again_s for turn in turns for call in turn]]
    ]


def _axis(rows: list[_Row], size: float, log: bool) -> Spec:
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
    interval_end = min(max(row.interval[1] for row in rows) / size, _WIDEST * slowest)
    low, high = min(inside), max(interval_end, min(max(inside), _FAR * slowest))
    if not log:
        scale = {"domain": [0, 1.06 * high], "nice": False, "clamp": True}
        return {"scale": scale, "axis": _AT_END}
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps = [
        step
        for decade in decades
        for step in (10.0**decade, 3 * 10.0**decade)
        if 0.8 * low <= step <= 1.15 * high
    ]
    return {
        "scale": {"type": "log", "domain": [0.8 * low, 1.15 * high], "nice": False, "clamp": True},
        "axis": {"values": steps, **_AT_END},
    }


def _median_rows(rows: list[_Row], size: float) -> list[Row]:
    return [
        {
            "row": row.label,
            "x": row.median / size,
            "low": low / size,
            "high": high / size,
            "time": seconds_text(row.median),
            "shape": row.shape,
            "interval": span_text(low, high),
        }
        for row in rows
        for low, high in [row.interval]
    ]


def _sample_rows(rows: list[_Row], size: float, low: float, high: float) -> list[Row]:
    return [
        {
            "row": row.label,
            "x": sample / size,
            "round": at + 1,
            "time": seconds_text(sample),
            "kind": "outlier" if at in row.outliers else "sample",
            "ink": _INK * min(1.0, _FEW / len(drawn)),
        }
        for row in rows
        for drawn in [_drawn(row.samples)]
        for at, sample in drawn
        if low < sample / size <= high
    ]


def _far_rows(rows: list[_Row], size: float, end: float) -> list[Row]:
    """Returns for each row how many of all its samples are beyond the axis, and the longest."""
    return [
        {"row": row.label, "x": far[-1] / size}
        | {"label": f"{len(far)} samples up to " * (len(far) > 1) + seconds_text(far[-1])}
        for row in rows
        if (far := sorted(each for each in row.samples if each / size > end))
    ]


def _drawn(samples: Sequence[float]) -> list[tuple[int, float]]:
    """(number, sample) of those that have a tick: all, or of many evenly ranked ones and the ends."""
    ranked = sorted(enumerate(samples), key=lambda each: (each[1], each[0]))
    step = -(-len(ranked) // _MOST)
    return sorted({*ranked[::step], ranked[-1]})

"""Values to charts: each function returns a Vega-Lite specification as a dict, for
`st.vega_lite_chart`, and draws nothing.

The rows lie inside the layers: a chart then costs one JSON dump at a rerun, with no data frame and
no Arrow table on the way.
"""

from collections.abc import Callable, Sequence
from typing import Any

from spmd_core.base import bytes_text, seconds_text
from spmd_core.results import Result, StrategyResult
from spmd_core.words import title

Spec = dict[str, Any]
Units = tuple[tuple[float, str], ...]
SECONDS: Units = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
BYTES: Units = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))
CONFIG: Spec = {
    "view": {"stroke": None},
    "padding": {"top": 4, "left": 2, "right": 8, "bottom": 2},
    "axis": {"grid": True, "titleFontWeight": 500, "titlePadding": 8, "tickCount": 7},
}
# of numbers beside marks: dark on a light page, light on a dark one
INK: Spec = {"color": "#ccd2da", "blend": "difference"}
# of rows; that of a study's row, `variant · strategy`, on two lines
LABELS: Spec = {
    "labelLimit": 220,
    "ticks": False,
    "domain": False,
    "labelExpr": "split(datum.label, ' · ')",
}
_VANISHES = 50.0  # a bar this many times shorter than the longest is not seen
_PHASES = (
    ("trace", "Trace"),
    ("lower", "Lower"),
    ("compile", "Compile"),
    ("first_run", "First run"),
)
_MEMORY = (("argument", "Arguments"), ("output", "Results"), ("temp", "Temporaries"))


def unit(values: Sequence[float], units: Units) -> tuple[float, str]:
    """The unit in which the middle of these values is easy to read: its size and its name."""
    middle = sorted(values)[len(values) // 2] if values else 0.0
    return next(((size, name) for size, name in units if middle >= size), units[-1])


def rows_axis(labels: Sequence[str]) -> Spec:
    """The y axis of labelled rows."""
    return {
        "field": "row",
        "type": "nominal",
        "sort": list(labels),
        "title": None,
        "scale": {"domain": list(labels)},
        "axis": LABELS,
    }


def live_chart(medians_s: dict[str, float], strategies: tuple[str, ...]) -> Spec:
    """Provisional medians, one bar for each strategy that has one."""
    size, name = unit(list(medians_s.values()), SECONDS)
    rows = [
        {
            "row": title(strategy),
            "x": medians_s[strategy] / size,
            "time": seconds_text(medians_s[strategy]),
        }
        for strategy in strategies
        if strategy in medians_s
    ]
    order = [title(strategy) for strategy in strategies]
    x = {
        "field": "x",
        "type": "quantitative",
        "title": f"time per call ({name})",
        "scale": {"zero": True},
        "axis": {"tickCount": 6},
    }
    color = {
        "field": "row",
        "type": "nominal",
        "sort": order,
        "scale": {"domain": order},
        "legend": None,
    }
    bar = {"type": "bar", "height": {"band": 0.55}, "opacity": 0.55, "cornerRadiusEnd": 3}
    layers = [
        {"mark": bar, "encoding": {"x": x, "y": rows_axis(order), "color": color}},
        {
            "mark": {"type": "text", "align": "left", "dx": 5, **INK},
            "encoding": {"x": x, "y": rows_axis(order), "text": {"field": "time"}},
        },
    ]
    return {
        "layer": [layer | {"data": {"values": rows}} for layer in layers],
        "height": {"step": 34},
        "config": CONFIG,
    }


def medians_alt(medians_s: dict[str, float]) -> str:
    """The chart of provisional medians in words."""
    return "Provisional median time per call: " + ", ".join(
        f"{title(name)} {seconds_text(median)}" for name, median in medians_s.items()
    )


def phases_chart(result: Result) -> Spec | None:
    """Seconds of trace, lower, compile and first run, stacked, by strategy; None where none was
    measured.
    """
    rows = [
        (title(name), words, at, seconds)
        for name, found in result.ordered
        for at, (phase, words) in enumerate(_PHASES)
        if (seconds := getattr(found.phases_s, phase)) is not None
    ]
    return _stacked(rows, SECONDS, "time, once", seconds_text, [words for _, words in _PHASES])


def memory_chart(result: Result) -> Spec | None:
    """Bytes per device of arguments, results and temporaries, stacked, by strategy; None where the
    compiler gave none.
    """
    rows = [
        (title(name), words, at, count)
        for name, found in result.ordered
        if found.memory_bytes is not None
        for at, (part, words) in enumerate(_MEMORY)
        if (count := getattr(found.memory_bytes, part)) is not None
    ]
    return _stacked(rows, BYTES, "memory per device", bytes_text, [words for _, words in _MEMORY])


def _stacked(
    rows: list[tuple[str, str, int, float]],
    units: Units,
    what: str,
    words: Callable[[float], str],
    parts: list[str],
) -> Spec | None:
    """Stacked bars of (row, part, order of the part, value)."""
    if not rows:
        return None
    totals: dict[str, float] = {}
    for row, _, _, value in rows:
        totals[row] = totals.get(row, 0.0) + value
    size, name = unit(list(totals.values()), units)
    values = [
        {"row": row, "part": part, "at": at, "x": value / size, "value": words(value)}
        for row, part, at, value in rows
    ]
    encoding = {
        "x": {"field": "x", "type": "quantitative", "title": f"{what} ({name})", "stack": True},
        "y": rows_axis(list(totals)),
        "color": {
            "field": "part",
            "type": "nominal",
            "sort": parts,
            "scale": {"domain": parts},
            "legend": {"orient": "top", "title": None},
        },
        "order": {"field": "at"},
        "tooltip": [
            {"field": "row", "title": "strategy"},
            {"field": "part", "title": "part"},
            {"field": "value", "title": "value"},
        ],
    }
    layer = {
        "data": {"values": values},
        "mark": {"type": "bar", "height": {"band": 0.6}},
        "encoding": encoding,
    }
    return {"layer": [layer], "height": {"step": 36}, "config": CONFIG}


def _with_interval(strategy: StrategyResult) -> tuple[float, float, float] | None:
    """Seconds in the middle, at the low and at the high end: measured, else predicted."""
    if (median := strategy.median_s) is not None:
        return (median, *(strategy.ci95_s or (median, median)))
    found = strategy.predicted_s
    return None if found is None else (found.estimate, found.low, found.high)


_TWO_LINES_PX = 36  # of a row whose label is a variant's name above its strategy's


def side_by_side_chart(results: Sequence[tuple[str, Result]]) -> Spec | None:
    """Times of several runs, measured or predicted, by strategy and run; `results` pairs each run's
    label with its result. Bars from zero, or where these would vanish points on a log scale.
    """
    found = [
        (name, label, times)
        for label, result in results
        for name, strategy in result.strategies.items()
        if (times := _with_interval(strategy)) is not None
    ]
    if not found:
        return None
    size, name = unit([middle for _, _, (middle, _, _) in found], SECONDS)
    labels = [label for label, _ in results]
    values = []
    for strategy, label, (middle, low, high) in found:
        times = {
            "x": middle / size,
            "low": low / size,
            "high": high / size,
            "time": seconds_text(middle),
        }
        values.append({"row": title(strategy), "run": label} | times)
    x, mark = _times_axis([times for _, _, times in found], name)
    shared = {
        "y": rows_axis(list(dict.fromkeys(row["row"] for row in values))),
        "yOffset": {
            "field": "run",
            "sort": labels,
            "scale": {"domain": labels},
            "bandPosition": 0.5,
        },
        "color": {
            "field": "run",
            "type": "nominal",
            "sort": labels,
            "scale": {"domain": labels},
            "legend": {"orient": "top", "title": None, "labelLimit": 400},
        },
        "tooltip": [
            {"field": "run"},
            {"field": "row", "title": "strategy"},
            {"field": "time", "title": "time"},
        ],
    }
    layers = [
        {"mark": mark, "encoding": {"x": x, **shared}},
        {
            "mark": {"type": "rule", "strokeWidth": 3},
            "encoding": {"x": x | {"field": "low"}, "x2": {"field": "high"}, **shared},
        },
    ]
    return {
        "layer": [layer | {"data": {"values": values}} for layer in layers],
        "height": {"step": max(20, _TWO_LINES_PX // len(labels))},
        "config": CONFIG,
    }


def _times_axis(times: Sequence[tuple[float, float, float]], name: str) -> tuple[Spec, Spec]:
    """The axis for (middle, low, high) of several runs, and the mark that fits it."""
    title = f"time per call or step ({name}), with its interval"
    axis: Spec = {"field": "x", "type": "quantitative"}
    lowest, longest = min(low for _, low, _ in times), max(middle for middle, _, _ in times)
    if 0 < lowest < longest / _VANISHES:
        return (
            axis | {"title": f"{title}, logarithmic", "scale": {"type": "log", "zero": False}},
            {"type": "point", "filled": True, "size": 90},
        )
    return (
        axis | {"title": title, "scale": {"zero": True}},
        {"type": "bar", "opacity": 0.5, "cornerRadiusEnd": 3},
    )

"""Values to charts: each function returns a Vega-Lite specification as a dict, for `st.vega_lite_chart`, and draws nothing.

The rows lie inside the layers: a chart then costs one JSON dump at a rerun, with no data frame and no Arrow table on the way.
"""

from typing import Any

from spmd_core.results import Result, StrategyResult
from spmd_core.units import bytes_text, seconds_text
from ui.words import title

Spec = dict[str, Any]
_ROW_PX = 58
_LOG_FROM = 20.0  # the slowest over the fastest: from here, bars from zero hide the fast ones
_SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_BYTES = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "bytes"))
_PHASES = (("trace", "Trace"), ("lower", "Lower"), ("compile", "Compile"), ("first_run", "First run"))
_MEMORY = (("argument", "Arguments"), ("output", "Results"), ("temp", "Temporaries"))


def unit(values: list[float], units: tuple[tuple[float, str], ...] = _SECONDS) -> tuple[float, str]:
    """The unit in which the middle of these values is easy to read: its size and its name."""
    middle = sorted(values)[len(values) // 2] if values else 0.0
    return next(((size, name) for size, name in units if middle >= size), units[-1])


def times_chart(result: Result) -> Spec | None:
    """Time per call by strategy: every sample as a tick, median as a bar, 95 % interval as a line; None where nothing was timed.

    Outliers beyond the axis are drawn at its end as triangles, with their true value on hover.
    """
    rows = [row for name, found in result.strategies.items() for row in _timed(name, found)]
    if not rows:
        return None
    size, name = unit([median for _, _, _, median, _ in rows if median])
    medians = [median / size for *_, median, _ in rows if median]
    log = max(medians) > _LOG_FROM * min(medians)
    inside = [sample / size for _, samples, outliers, _, _ in rows for at, sample in enumerate(samples) if at not in outliers]
    end = 1.06 * max([*inside, *medians])
    begin = 0.8 * min([*inside, *medians]) if log else 0.0
    scale = {"type": "log" if log else "linear", "domain": [begin, end], "nice": False, "clamp": True}
    x = {"field": "x", "type": "quantitative", "scale": scale, "title": f"time per call ({name})" + (", logarithmic" if log else "")}
    order = [label for label, *_ in rows]
    y = {"field": "row", "type": "nominal", "sort": order, "title": None, "axis": {"labelLimit": 220, "ticks": False, "domain": False}}
    color = {"field": "row", "type": "nominal", "sort": order, "scale": {"domain": order}, "legend": None}
    samples, beyond, summary = [], [], []
    for label, taken, outliers, median, interval in rows:
        for at, sample in enumerate(taken):
            row = {"row": label, "x": sample / size, "round": at + 1, "time": seconds_text(sample), "kind": "outlier" if at in outliers else "sample"}
            (beyond if sample / size > end else samples).append(row)
        if median is not None:
            low, high = interval or (median, median)
            summary.append({"row": label, "x": median / size, "low": low / size, "high": high / size, "time": seconds_text(median),
                            "interval": f"{seconds_text(low)} to {seconds_text(high)}"})
    hover = [{"field": "row", "title": "strategy"}, {"field": "time", "title": "time"}, {"field": "round", "title": "round"}, {"field": "kind", "title": "is"}]
    told = [{"field": "row", "title": "strategy"}, {"field": "time", "title": "median"}, {"field": "interval", "title": "95 % interval"}]
    bars = [] if log else [{"data": {"values": summary}, "mark": {"type": "bar", "height": {"band": 0.5}, "opacity": 0.22, "cornerRadiusEnd": 3},
                            "encoding": {"x": x, "x2": {"datum": 0}, "y": y, "color": color, "tooltip": told}}]
    layers = [
        *bars,
        {"data": {"values": samples}, "mark": {"type": "tick", "thickness": 1.2, "height": 16, "opacity": 0.55},
         "encoding": {"x": x, "y": y, "color": color, "tooltip": hover}},
        {"data": {"values": beyond}, "mark": {"type": "point", "shape": "triangle-right", "filled": True, "size": 60, "opacity": 0.9},
         "encoding": {"x": x, "y": y, "color": color, "tooltip": hover}},
        {"data": {"values": summary}, "mark": {"type": "rule", "strokeWidth": 5, "strokeCap": "round"},
         "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, "y": y, "color": color, "tooltip": told}},
        {"data": {"values": summary}, "mark": {"type": "text", "dy": -21, "align": "center", "fontWeight": 600},
         "encoding": {"x": x, "y": y, "text": {"field": "time"}}},
    ]
    return {"layer": layers, "height": {"step": _ROW_PX}, "config": _CONFIG}


def times_alt(result: Result) -> str:
    """The chart of times in words."""
    told = [f"{label} {seconds_text(median)}" for name, found in result.strategies.items() for label, _, _, median, _ in _timed(name, found)]
    return "Time per call by strategy, median of all samples: " + ", ".join(told)


def _timed(name: str, found: StrategyResult) -> list[tuple[str, tuple[float, ...], set[int], float | None, tuple[float, float] | None]]:
    """The timed rows of a strategy: label, samples, outliers, median, interval. `constrained` has two."""
    rows = []
    if found.samples_s:
        label = title(name) + (" ✗ wrong values" if found.correct is False else "")
        rows.append((label, found.samples_s, set(found.outliers), found.median_s, found.ci95_s))
    if found.from_unsharded is not None and found.from_unsharded.samples_s:
        rows.append((f"{title(name)}, from unsharded", found.from_unsharded.samples_s, set(), found.from_unsharded.median_s, None))
    return rows


def live_chart(medians_s: dict[str, float], strategies: tuple[str, ...]) -> Spec:
    """Provisional medians, one bar for each strategy that has one."""
    size, name = unit(list(medians_s.values()))
    rows = [{"row": title(strategy), "x": medians_s[strategy] / size, "time": seconds_text(medians_s[strategy])}
            for strategy in strategies if strategy in medians_s]
    order = [title(strategy) for strategy in strategies]
    x = {"field": "x", "type": "quantitative", "title": f"provisional median, time per call ({name})", "scale": {"zero": True}}
    y = {"field": "row", "type": "nominal", "sort": order, "title": None, "scale": {"domain": order}, "axis": {"labelLimit": 220, "ticks": False}}
    color = {"field": "row", "type": "nominal", "sort": order, "scale": {"domain": order}, "legend": None}
    layers = [{"mark": {"type": "bar", "height": {"band": 0.55}, "opacity": 0.55, "cornerRadiusEnd": 3}, "encoding": {"x": x, "y": y, "color": color}},
              {"mark": {"type": "text", "align": "left", "dx": 5}, "encoding": {"x": x, "y": y, "text": {"field": "time"}}}]
    return {"layer": [layer | {"data": {"values": rows}} for layer in layers], "height": {"step": 34}, "config": _CONFIG}


def medians_alt(medians_s: dict[str, float]) -> str:
    """The chart of provisional medians in words."""
    return "Provisional median time per call: " + ", ".join(f"{title(name)} {seconds_text(median)}" for name, median in medians_s.items())


def phases_chart(result: Result) -> Spec | None:
    """Seconds of trace, lower, compile and first run, stacked, by strategy; None where none was measured."""
    rows = [(title(name), words, at, seconds) for name, found in result.strategies.items() for at, (phase, words) in enumerate(_PHASES)
            if (seconds := getattr(found.phases_s, phase)) is not None]
    return _stacked(rows, _SECONDS, "time, once", seconds_text, [words for _, words in _PHASES])


def memory_chart(result: Result) -> Spec | None:
    """Bytes per device of arguments, results and temporaries, stacked, by strategy; None where the compiler gave none."""
    rows = [(title(name), words, at, count) for name, found in result.strategies.items() if found.memory_bytes is not None
            for at, (part, words) in enumerate(_MEMORY) if (count := getattr(found.memory_bytes, part)) is not None]
    return _stacked(rows, _BYTES, "bytes per device", bytes_text, [words for _, words in _MEMORY])


def _stacked(rows: list[tuple[str, str, int, float]], units: tuple[tuple[float, str], ...], what: str, words: Any, parts: list[str]) -> Spec | None:
    """Stacked bars of (row, part, order of the part, value)."""
    if not rows:
        return None
    totals: dict[str, float] = {}
    for row, _, _, value in rows:
        totals[row] = totals.get(row, 0.0) + value
    size, name = unit(list(totals.values()), units)
    values = [{"row": row, "part": part, "at": at, "x": value / size, "value": words(value)} for row, part, at, value in rows]
    encoding = {
        "x": {"field": "x", "type": "quantitative", "title": f"{what} ({name})" if name != what.split()[0] else what, "stack": True},
        "y": {"field": "row", "type": "nominal", "sort": list(totals), "title": None, "axis": {"labelLimit": 220, "ticks": False, "domain": False}},
        "color": {"field": "part", "type": "nominal", "sort": parts, "scale": {"domain": parts}, "legend": {"orient": "top", "title": None}},
        "order": {"field": "at"},
        "tooltip": [{"field": "row", "title": "strategy"}, {"field": "part", "title": "part"}, {"field": "value", "title": "value"}],
    }
    mark = {"type": "bar", "height": {"band": 0.6}, "stroke": "white", "strokeWidth": 0.5}
    return {"layer": [{"data": {"values": values}, "mark": mark, "encoding": encoding}], "height": {"step": 36}, "config": _CONFIG}


def side_by_side_chart(results: list[tuple[str, Result]]) -> Spec | None:
    """Medians of several runs, by strategy and run; `results` pairs each run's label with its result."""
    rows = [(name, label, found.median_s, found.ci95_s) for label, result in results for name, found in result.strategies.items()
            if found.median_s is not None]
    if not rows:
        return None
    size, name = unit([median for _, _, median, _ in rows])
    labels = [label for label, _ in results]
    values = [{"row": title(strategy), "run": label, "x": median / size, "low": (interval or (median, median))[0] / size,
               "high": (interval or (median, median))[1] / size, "time": seconds_text(median)} for strategy, label, median, interval in rows]
    x = {"field": "x", "type": "quantitative", "title": f"median time per call ({name}), with its 95 % interval", "scale": {"zero": True}}
    y = {"field": "row", "type": "nominal", "sort": list(dict.fromkeys(row["row"] for row in values)), "title": None, "axis": {"labelLimit": 220}}
    offset = {"field": "run", "sort": labels, "scale": {"domain": labels}}
    color = {"field": "run", "type": "nominal", "sort": labels, "scale": {"domain": labels}, "legend": {"orient": "top", "title": None, "labelLimit": 400}}
    hover = [{"field": "run"}, {"field": "row", "title": "strategy"}, {"field": "time", "title": "median"}]
    shared = {"y": y, "yOffset": offset, "color": color, "tooltip": hover}
    layers = [{"mark": {"type": "bar", "opacity": 0.5, "cornerRadiusEnd": 3}, "encoding": {"x": x, **shared}},
              {"mark": {"type": "rule", "strokeWidth": 3}, "encoding": {"x": {**x, "field": "low"}, "x2": {"field": "high"}, **shared}}]
    return {"layer": [layer | {"data": {"values": values}} for layer in layers], "height": {"step": 20}, "config": _CONFIG}


_CONFIG = {"view": {"stroke": None}, "axis": {"grid": True, "titleFontWeight": 500, "titlePadding": 8}, "padding": {"top": 4, "left": 2, "right": 8, "bottom": 2}}

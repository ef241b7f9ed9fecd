"""Charts of results: provisional medians, phases, memory, and runs side by side."""

from collections.abc import Callable, Mapping, Sequence

from spmd_core.base import bytes_text, seconds_text, sums_by_key
from spmd_core.experiment import Experiment
from spmd_core.history import as_long_words
from spmd_core.results import Result, StrategyResult
from spmd_core.terms import planned_title, row_title, title
from spmd_core.words import RANGE
from spmd_lab.ui.charts import colors
from spmd_lab.ui.charts.base import (
    BYTES,
    INK,
    INTERVAL,
    MARKER,
    SECONDS,
    TOP,
    Row,
    Spec,
    Units,
    category,
    hover,
    layer,
    layered,
    markers,
    quantity,
    rows_axis,
    unit,
)

_SO_FAR = "time per call so far ({}): median, 95% interval"
_TOO_SHORT = 50.0  # a bar this many times shorter than the longest is not seen
_PHASES = {"trace": "Trace", "lower": "Lower", "compile": "Compile", "first_run": "First run"}
_MEMORY = {"argument": "Arguments", "output": "Results", "temp": "Temporaries"}
_ROOM, _MOST_ROOM = 0.012, 0.6  # of the axis behind the longest bar: for each character, at most
_FARTHEST = 100.0  # a ratio that is drawn
_RATIOS = [step * 10**power for power in (-2, -1, 0, 1) for step in (1, 2, 5)] + [100]  # ticks
_FAR = 2.5  # times the longest time: how far a line is drawn
_ABOVE = {"type": "text", "dy": -13, "fontWeight": 600}
_EVEN = {"type": "rule", "strokeWidth": 1.5, **INK}
_TWO_LINES_PX = 36  # of a row whose label is a variant's name above its strategy's


def live_chart(
    medians_s: Mapping[str, float],
    experiment: Experiment,
    intervals_s: Mapping[str, tuple[float, float]] | None = None,
) -> Spec:
    """Returns provisional medians with their intervals, a bar for each row that has one, in the
    color and with the marker that its result has.
    """
    titles = {row.key: planned_title(experiment, row.key) for row in experiment.rows_once}
    labels = {shown: title(row) for row, shown in titles.items()}
    size, name = unit(list(medians_s.values()), SECONDS)
    within = intervals_s or {}
    rows = [
        {
            "row": titles[strategy],
            "x": median / size,
            "low": within.get(strategy, (median,))[0] / size,
            "high": within.get(strategy, (median,))[-1] / size,
            "time": seconds_text(median),
            "shape": colors.shape(experiment, strategy),
        }
        for strategy in titles
        if (median := medians_s.get(strategy)) is not None
    ]
    x = quantity("x", title=_SO_FAR.format(name), scale={"zero": True}, axis={"tickCount": 6})
    y = rows_axis([*titles.values()])
    color = category("row", colors.domain(experiment, labels))
    bar = {"type": "bar", "height": {"band": 0.5}, "opacity": 0.22, "cornerRadiusEnd": 3}
    interval = {"x": x | {"field": "low"}, "x2": {"field": "high"}, "y": y, "color": color}
    text = {"type": "text", "dy": -17, "fontWeight": 600, **INK}
    return layered(
        [
            layer(rows, bar, x=x, y=y, color=color),
            layer(rows, INTERVAL, **interval),
            *markers(rows, x=x, y=y, color=color),
            layer(rows, text, x=x, y=y, text={"field": "time"}),
        ],
        {"step": 50},
    )


def phases_chart(result: Result) -> Spec | None:
    """Seconds of trace, lower, compile and first run, stacked, by strategy; None where none was
    measured.
    """
    return _stacked(result, "phases_s", _PHASES, SECONDS, "time, once", seconds_text)


def memory_chart(result: Result) -> Spec | None:
    """Bytes per device of arguments, results and temporaries, stacked, by strategy; None where the
    compiler gave none.
    """
    return _stacked(result, "memory_bytes", _MEMORY, BYTES, "memory per device", bytes_text)


def _stacked(
    result: Result,
    field: str,
    parts: dict[str, str],
    units: Units,
    axis_title: str,
    text: Callable[[float], str],
) -> Spec | None:
    measured = [
        (row_title(result, name), words, place, value)
        for name, strategy in result.ordered
        for place, (part, words) in enumerate(parts.items())
        if (value := getattr(getattr(strategy, field), part, None)) is not None
    ]
    if not measured:
        return None
    totals = sums_by_key((row, value) for row, _, _, value in measured)
    size, name = unit(list(totals.values()), units)
    bars = layer(
        [
            {"row": row, "part": part, "at": place, "x": value / size, "value": text(value)}
            for row, part, place, value in measured
        ],
        {"type": "bar", "height": {"band": 0.6}},
        x=quantity("x", title=f"{axis_title} ({name})", stack=True),
        y=rows_axis(list(totals)),
        color=category("part", list(parts.values()), legend=TOP),
        order={"field": "at"},
        tooltip=hover(row="strategy", part="part", value="value"),
    )
    return layered([bars], {"step": 36})


def _time_interval(
    strategy: StrategyResult,
) -> tuple[float, float, float] | None:
    if (median := strategy.median_s) is not None:
        return (median, *(strategy.ci95_s or (median, median)))
    predicted = strategy.predicted_s
    return None if predicted is None else (predicted.estimate, predicted.low, predicted.high)


def side_by_side_chart(
    results: Sequence[tuple[str, Result]],
) -> Spec | None:
    """Times of several runs, measured or predicted, by strategy and run; `results` pairs each run's
    label with its result. Bars from zero, or where these would vanish points on a log scale.
    """
    times = [
        (row_title(result, name), label, seconds)
        for label, result in results
        for name, strategy in result.ordered
        if (seconds := _time_interval(strategy))
    ]
    if not times:
        return None
    size, name = unit([middle for _, _, (middle, _, _) in times], SECONDS)
    labels = [label for label, _ in results]
    far = _FAR * max(middle for *_, (middle, _, _) in times)
    rows = [_interval_row(*each, size, far) for each in times]
    longest = max(len(str(row["label"])) for row in rows)
    ends = min(far, max(high for *_, (_, _, high) in times)) / size
    end = ends * (1 + min(_MOST_ROOM, _ROOM * longest))
    titles = [f"time per call or step ({name})", f"line: {_line_words(results)}"]
    x, mark = _times_axis([each for _, _, each in times], titles, end)
    places, rows = _places(rows, labels)
    shared = {
        **places,
        "color": category("run", labels),
        "tooltip": hover(run="run", row="strategy", time="time"),
    }
    interval = {"x": x | {"field": "low"}, "x2": {"field": "high"}}
    text = _ABOVE | {"align": "left", "dx": 6, "dy": 0}
    named = {"x": x | {"field": "high"}, "text": {"field": "label"}}
    layers = [
        layer(rows, mark, x=x, **shared),
        layer(rows, {"type": "rule", "strokeWidth": 3}, **interval, **shared),
        layer(rows, text, **named, **shared),
    ]
    together = len(labels) if "yOffset" in places else 1
    return layered(layers, {"step": max(20, _TWO_LINES_PX // together)})


def ratios_chart(
    ratios: Mapping[str, tuple[float, float, float]],
    baseline: str,
    labels: Sequence[str],
    kind: str,
) -> Spec:
    """Times of runs as multiples of the baseline's, each with the ends of its interval, around a rule
    at 1; in the colors that the runs, in the order of `labels`, have beside it.

    Args:
      ratios: the ratio and its ends, by what the run is called.
      kind: what the line is, such as `99% interval`.
    """
    rows = [_ratio_row(name, *each) for name, each in ratios.items()]
    ends = [float(str(row[end])) for row in rows for end in ("low", "high")]
    domain = [min(0.5, *ends), max(2.0, *ends)]
    x = quantity(
        "x",
        title=f"times as long as {baseline} (line: {kind}); left of 1 is faster",
        scale={"type": "log", "domain": domain, "nice": False},
        axis={"values": _RATIOS, "format": "~g"},
    )
    shared = {"y": rows_axis([*ratios]), "color": category("run", labels)}
    interval = {"x": x | {"field": "low"}, "x2": {"field": "high"}}
    return layered(
        [
            layer([{"x": 1.0}], _EVEN, x=x),
            layer(rows, INTERVAL, **interval, **shared),
            layer(rows, MARKER, x=x, **shared),
            layer(rows, _ABOVE, x=x, text={"field": "label"}, **shared),
        ],
        {"step": 44},
    )


def _ratio_row(name: str, ratio: float, low: float, high: float) -> Row:
    return {
        "row": name,
        "run": name,
        "x": ratio,
        "low": max(low, 1 / _FARTHEST),
        "high": min(high, _FARTHEST),
        "label": as_long_words(ratio, (low, high)),
    }


def _places(rows: Sequence[Row], labels: Sequence[str]) -> tuple[Spec, list[Row]]:
    """Where rows stand, and the rows: the runs of a strategy side by side where each run has each
    strategy, else one below another, each by its run and strategy.
    """
    order = list(dict.fromkeys(str(row["row"]) for row in rows))
    if len(rows) == len(order) * len(labels):
        offset = {"field": "run", "sort": labels, "scale": {"domain": labels}, "bandPosition": 0.5}
        return {"y": rows_axis(order), "yOffset": offset}, [*rows]
    order = [f"{row['run']} · {row['row']}" for row in rows]
    return {"y": rows_axis(order)}, [
        {**row, "row": label, "label": str(row["label"]).replace(f"{row['run']} ", "", 1)}
        for row, label in zip(rows, order, strict=True)
    ]


def _line_words(results: Sequence[tuple[str, Result]]) -> str:
    """What the line through a time is: of measured times, of predicted ones, or of both."""
    every = [each for _, result in results for each in result.strategies.values()]
    kinds = {each.median_s is not None for each in every if each.median_s or each.predicted_s}
    if kinds == {True}:
        return "its 95% interval"
    return f"its {RANGE}" if kinds == {False} else f"95% interval of a measured time, {RANGE} else"


def _interval_row(
    strategy: str, run: str, seconds: tuple[float, float, float], size: float, far: float
) -> Row:
    """A time with its interval, which ends with an arrow where it passes `far` seconds."""
    middle, low, high = seconds
    return {
        "row": strategy,
        "run": run,
        "x": middle / size,
        "low": low / size,
        "high": min(high, far) / size,
        "time": seconds_text(middle),
        "label": "▸ " * (high > far) + f"{run} {seconds_text(middle)}",
    }


def _times_axis(
    times: Sequence[tuple[float, float, float]], titles: Sequence[str], end: float
) -> tuple[Spec, Spec]:
    lowest, longest = min(low for _, low, _ in times), max(middle for middle, _, _ in times)
    if 0 < lowest < longest / _TOO_SHORT:
        return (
            quantity("x", title=[*titles, "logarithmic"], scale={"type": "log", "zero": False}),
            {"type": "point", "filled": True, "size": 90},
        )
    return (
        quantity("x", title=[*titles], scale={"zero": True, "domainMax": end}),
        {"type": "bar", "opacity": 0.5, "cornerRadiusEnd": 3},
    )

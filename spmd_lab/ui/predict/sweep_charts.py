"""A sweep's curves as charts that share their x axis; Vega-Lite as dicts, nothing is drawn here."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from spmd_core.base import bytes_text, capital, seconds_text, sums_by_key
from spmd_core.surveys import axis_title, mfu_title, point_title
from spmd_core.sweeps import Sweep, SweepRow
from spmd_lab.ui.charts import shares
from spmd_lab.ui.charts.base import (
    BYTES,
    QUIET,
    SECONDS,
    TOP,
    Row,
    Spec,
    category,
    layer,
    unit,
)
from spmd_lab.ui.predict.scaling_chart import scaling_chart
from spmd_lab.ui.predict.sweep_axes import (
    CROSSED,
    HEADING,
    HEIGHT_PX,
    LEGEND_PX,
    OWN,
    TOO_LARGE,
    curve,
    is_steep,
    place,
    tips,
    value_of,
)

MAX_KINDS = 3  # of collectives, in the chart of exposed communication
_CAPACITY_LINE = {
    "type": "line",
    "strokeDash": [5, 4],
    "strokeWidth": 1.5,
    "color": CROSSED,
}
_CAPACITY_TICK = {"type": "tick", "width": 34, "thickness": 2, "color": CROSSED}
_ESTIMATED = {"type": "point", "filled": False, "size": 55}
_CROSS = {
    "type": "point",
    "shape": "cross",
    "angle": 45,
    "filled": True,
    "size": 110,
    "color": CROSSED,
}
_LIMIT = {"type": "text", "align": "right", "dy": -7, "fontWeight": 600, "color": CROSSED}
_NEEDED = _LIMIT | {"dy": -14}
_BELOW = {"dy": 16}  # of the capacity, above whose line the crosses are
_KINDS_LEGEND = TOP | {"columns": 2, "labelLimit": 130}  # a chart of three


def step_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Seconds of a step: the estimate within its interval."""
    size, name = unit([row.numbers.step_s for row in rows if row.numbers.step_s], SECONDS)
    steps = [(row, row.numbers, step_s) for row in rows if (step_s := row.numbers.step_s)]
    values = [
        value_of(
            sweep,
            row,
            step_s / size,
            (numbers.low_s or 0.0) / size,
            (numbers.high_s or 0.0) / size,
            seconds_text(step_s),
        )
        for row, numbers, step_s in steps
    ]
    steep = is_steep([step_s for _, _, step_s in steps])
    return curve(sweep, rows, values, f"Time of a step ({name})", zero=not steep, log=steep)


def mfu_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Model FLOPs utilization in percent, with the interval that follows from the step's."""
    values = [
        value_of(sweep, row, 100 * mfu, 100 * low, min(100.0, 100 * high), f"{mfu:.1%}")
        for row in rows
        for mfu, low, high in filter(None, [row.shown_mfu])
    ]
    return curve(sweep, rows, values, f"{mfu_title(sweep)} (%)", zero=True)


def rate_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Tokens per second and chip."""
    values = []
    for row in rows:
        step_s, low_s, high_s = row.numbers.step_s, row.numbers.low_s, row.numbers.high_s
        if (rate := row.numbers.tokens_per_s_per_chip) and step_s and low_s and high_s:
            low, high = rate * step_s / high_s, rate * step_s / low_s
            values.append(value_of(sweep, row, rate, low, high, f"{rate:,.0f}"))
    return curve(sweep, rows, values, "Tokens per second and chip", zero=True)


def efficiency_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Useful work per chip and second over that of the smallest point, in percent."""
    if sweep.variable.scales:
        return scaling_chart(sweep, rows)
    known = [(row, row.efficiency) for row in rows if row.efficiency is not None]
    most = max((each for _, each in known), default=1.0)
    values = [
        value_of(sweep, row, 100 * each / most, None, None, f"{each / most:.1%}")
        for row, each in known
    ]
    return curve(sweep, rows, values, "Work per chip and second (best = 100%)", zero=True)


def _estimated(rows: Sequence[SweepRow]) -> str:
    """Returns what comes before the title of a chart with estimates among its points."""
    return "estimated " * any(row.is_estimated for row in rows if row.numbers.step_s)


def with_compiled(
    sweep: Sweep, chart: Spec, name: str, rows: Sequence[SweepRow], compiled: Sequence[SweepRow]
) -> Spec:
    """Returns step times with compiled ones beside the estimates, filled. Efficiency has none: a
    compiled step over an estimated one compares compiler and estimate.
    """
    if name != _STEP:
        return chart
    guessed = {row.point.label: row.numbers.step_s or 0.0 for row in rows}
    times = {row.point.label: (row.numbers.step_s or 0.0) for row in compiled}
    values = [
        row for each in chart["layer"] for row in each["data"]["values"] if "estimated" in row
    ]
    drawn = {
        row["label"]: {**row, "y": row["y"] * ratio}
        | {"text": f"{seconds_text(times[row['label']])} a step, compiled"}
        for row in values
        if (ratio := times.get(row["label"], 0.0) / (guessed.get(row["label"]) or 1.0))
    }
    if not drawn:
        return chart
    mark = _ESTIMATED | {"filled": True, "opacity": 1}
    shown = chart["encoding"] | {"color": OWN, "tooltip": tips(sweep, name)}
    title = chart["title"] | {"text": f"{chart['title']['text']}, filled: compiled"}
    return chart | {
        "layer": [*chart["layer"], layer([*drawn.values()], mark, **shown)],
        "title": title,
    }


def parts_chart(
    sweep: Sweep, rows: Sequence[SweepRow], parts: Mapping[str, Mapping[str, float]]
) -> Spec:
    """Returns where the time of each point goes, as high as the curve beside it."""
    chart = shares.parts_chart(parts)
    chart["layer"][0]["encoding"]["color"]["legend"] |= {
        "orient": "bottom",
        "columns": {"expr": "width < 330 ? 1 : 2"},
    }
    lines = -(-len({part for each in parts.values() for part in each}) // 2)
    by = f"by {axis_title(sweep)}"
    if len(parts) == 1:  # a bar without an axis
        label, seconds = next((label, sum(each.values())) for label, each in parts.items())
        point = next(row.point for row in rows if row.point.label == label)
        by = f"at {point_title(sweep, point)}: {seconds_text(seconds)}"
    title = HEADING | {"text": capital(f"{_estimated(rows)}time of a step {by}")}
    return chart | {"height": HEIGHT_PX + LEGEND_PX * lines, "title": title}


@dataclass(slots=True)
class _Memory:
    """The points of the memory chart, by what each of them is, in units of `size` bytes."""

    sweep: Sweep
    size: float
    capacity: list[Row] = field(default_factory=list)
    compiled: list[Row] = field(default_factory=list)
    estimated: list[Row] = field(default_factory=list)
    too_large: list[Row] = field(default_factory=list)
    highest: float = 0.0

    def add_row(self, row: SweepRow) -> None:
        """Append the capacity at a row, and the bytes per device that it needs."""
        point, peak = row.point, row.numbers.peak_bytes
        capacity = f"capacity {bytes_text(point.capacity_bytes)}"
        self._add(self.capacity, row, point.capacity_bytes, capacity)
        if row.outcome.state in TOO_LARGE:
            needed = point.expected_bytes if peak is None else peak
            needs = "" if needed is None else f"{bytes_text(needed)} needed, "
            text = f"does not fit: {needs}{capacity}"
            at = point.capacity_bytes if needed is None else needed
            self._add(self.too_large, row, at, text, needs.removesuffix(", "))
        elif peak is not None and not row.is_estimated:
            self._add(self.compiled, row, peak, f"{bytes_text(peak)} by the compiler")
        elif (expected := point.expected_bytes) is not None:
            self._add(self.estimated, row, expected, f"{bytes_text(expected)} by its sizes")

    def _add(
        self, points: list[Row], row: SweepRow, count: float, text: str, needs: str = ""
    ) -> None:
        y = count / self.size
        points.append({**place(self.sweep, row), "y": y, "text": text, "needs": needs})
        self.highest = max(self.highest, y)


def memory_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Peak per device by the compiler, the estimate from the sizes where it is not compiled yet,
    and the capacity; crosses do not fit.
    """
    limits = [float(row.point.capacity_bytes) for row in rows if row.point.capacity_bytes]
    size, name = unit(limits, BYTES)
    memory = _Memory(sweep, size)
    for row in rows:
        if row.point.experiment is not None:
            memory.add_row(row)
    chart = curve(sweep, rows, memory.compiled, f"Memory per device ({name})", zero=True)
    y = chart["encoding"]["y"]
    y["scale"]["domainMax"] = 1.2 * (memory.highest or 1.0)  # a cross stays in sight
    shared = {"x": chart["encoding"]["x"], "y": y, "tooltip": tips(sweep, "memory")}
    line = _CAPACITY_TICK if sweep.is_categorical else _CAPACITY_LINE
    chart["layer"] = [
        layer(memory.capacity, line, **shared),
        *chart["layer"],
        layer(memory.estimated, _ESTIMATED, color=OWN, **shared),
        layer(memory.too_large, _CROSS, **shared),
        *_named(memory, x=chart["encoding"]["x"], y=y),
    ]
    marks = {"○ by its sizes": memory.estimated, "● by the compiler": memory.compiled}
    named = ", ".join(words for words, points in marks.items() if points)
    chart["title"] |= {"subtitle": named, "subtitleColor": QUIET}
    return chart


def _named(memory: _Memory, **shared: Spec) -> list[Spec]:
    """Returns the words at what does not fit, and at the capacity: at the last point of a line, at each
    of what has no order.
    """
    is_apart = memory.sweep.is_categorical
    last = slice(None) if is_apart else slice(-1, None)
    beside = {"align": "center"} if is_apart else {}
    below = _BELOW if memory.too_large else {}
    end = memory.capacity[-1]["x"] if memory.capacity else None
    ends = {is_last: [row for row in memory.too_large if (row["x"] == end) is is_last] for is_last in (False, True)}  # fmt: skip
    return [
        layer(memory.capacity[last], _LIMIT | beside | below, **shared, text={"field": "text"}),
        *(
            layer(
                rows,
                _NEEDED | (beside or {"align": "right" if is_last else "left"}),
                **shared,
                text={"field": "needs"},
            )
            for is_last, rows in ends.items()
        ),
    ]


def exposed_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Share of the step that exposed collectives take, in percent: all of them, and the largest
    kinds.
    """
    totals = sums_by_key(
        (kind, seconds / (row.numbers.step_s or math.inf))
        for row in rows
        for kind, seconds in row.numbers.exposed_s.items()
    )
    largest = sorted(totals, key=lambda kind: -totals[kind])[:MAX_KINDS]
    kinds = largest if len(totals) > 1 else []
    values: list[Row] = []
    for row in rows:
        step_s = row.numbers.step_s
        if row.exposed_share is None or not step_s:
            continue
        exposed = row.numbers.exposed_s
        shares = {"all": row.exposed_share} | {
            kind: exposed.get(kind, 0.0) / step_s for kind in kinds
        }
        values += [
            {**value_of(sweep, row, 100 * share, None, None, f"{share:.1%}"), "kind": kind}
            for kind, share in shares.items()
        ]
    chart = curve(sweep, rows, values, "Exposed communication (% of step)", zero=True)
    color = category("kind", ["all", *kinds], legend=_KINDS_LEGEND if kinds else None)
    for each in chart["layer"]:
        each["encoding"] = {**each["encoding"], "color": color}
    return chart | ({"height": HEIGHT_PX + LEGEND_PX * (1 + len(kinds)) // 2} if kinds else {})


_STEP = "Time of a step"
CHARTS: dict[str, Callable[[Sweep, Sequence[SweepRow]], Spec]] = {
    _STEP: step_chart,
    "MFU": mfu_chart,
    "Memory": memory_chart,
    "Exposed communication": exposed_chart,
    "Tokens": rate_chart,
    "Efficiency": efficiency_chart,
}


def charts_of(sweep: Sweep, rows: Sequence[SweepRow]) -> dict[str, Spec]:
    """The charts that have something to show, by name."""
    # of numbers of chips the question is how far it scales
    first = ("Efficiency",) if sweep.variable.scales else ()
    # of a plan that is not scaled, tokens per second and chip are the same curve in a unit
    rest = [name for name in CHARTS if name != "Efficiency" or not sweep.base.plan]
    drawn = {name: CHARTS[name](sweep, rows) for name in dict.fromkeys((*first, *rest))}
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
        "MFU": lambda row: f"{row.shown_mfu[0]:.1%}" if row.shown_mfu else None,
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
    needs = "; ".join(f"{row.point.label}: {text}" for row in rows if (text := words[name](row)))
    title = mfu_title(sweep) if name == "MFU" else name
    return f"{title} by {axis_title(sweep)}: {needs or 'nothing yet'}"


def _memory_words(row: SweepRow) -> str | None:
    if row.outcome.state in TOO_LARGE:
        return "does not fit"
    peak = row.numbers.peak_bytes
    count = row.point.expected_bytes if peak is None else peak
    return None if count is None else bytes_text(count)

"""A sweep's curves as charts that share their x axis; Vega-Lite as dicts, nothing is drawn here."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from spmd_core.base import bytes_text, capital, seconds_text, sums_by_key
from spmd_core.surveys import ALIKE, GOOD, axis_title, fell_most, knee, mfu_title, point_title
from spmd_core.sweeps import Sweep, SweepRow
from spmd_core.words import predictions
from spmd_lab.ui.charts import shares
from spmd_lab.ui.charts.base import (
    BYTES,
    INK,
    QUIET,
    SECONDS,
    TOP,
    Row,
    Spec,
    category,
    layer,
    quantity,
    unit,
)
from spmd_lab.ui.predict.sweep_axes import (
    CROSSED,
    HEADING,
    HEIGHT_PX,
    LEGEND_PX,
    OWN,
    curve,
    is_steep,
    place,
    tips,
    value_of,
    x_axis,
)

MAX_KINDS = 3  # of collectives, in the chart of exposed communication
_TOO_LARGE = ("too large", "does not fit")  # states of a point
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
    values = [
        value_of(sweep, row, 100 * row.efficiency, None, None, f"{row.efficiency:.1%}")
        for row in rows
        if row.efficiency is not None
    ]
    base = next((row.point for row in rows if row.efficiency is not None), None)
    of = f", {point_title(sweep, base)} = 100" if base else ""
    title = capital(f"{_estimated(rows)}efficiency (%{of})") if sweep.variable.scales else _WORK
    chart = curve(sweep, rows, values, title, zero=not sweep.variable.scales)
    return _scaled(sweep, rows, chart, values) if sweep.variable.scales and values else chart


def _scaled(sweep: Sweep, rows: Sequence[SweepRow], chart: Spec, values: Sequence[Row]) -> Spec:
    """The curve of efficiency with where it bends, and in a strip of its own what does not fit."""
    without = _without_stragglers(sweep, rows)
    shares_of = [100 * GOOD, 100.0, *(float(str(value["y"])) for value in (*values, *without))]
    apart = 10 if min(shares_of) > 50 else 20
    low, high = max(0, apart * math.floor((min(shares_of) - 6) / apart)), max(shares_of) + 8
    x, y = chart["encoding"]["x"], chart["encoding"]["y"]
    y["scale"] |= {"domain": [low, high], "nice": False}
    y["axis"] = {"values": list(range(low, math.ceil(high), apart))}
    lost = [
        {**place(sweep, row), "text": f"{row.point.label} does not fit"}
        for row in rows
        if row.outcome.state in _TOO_LARGE and row.point.experiment is not None
    ]
    if lost:  # below the axis: they have no efficiency
        y["scale"]["range"] = [{"expr": f"height - {_LANE_PX}"}, 0]
    good = {"y": 100 * GOOD, "text": f"above {GOOD:.0%} counts as scaling"}
    chart["layer"] = [
        layer([good], _GOOD, x={"value": 0}, x2={"value": "width"}, y=y),
        layer(
            [good],
            _VALUE | {"align": "left", "dx": 4},
            x={"value": 0},
            y=y,
            text={"field": "text"},
        ),
        layer(without, _WITHOUT, x=x, y=y, color=OWN),
        layer(without[-1:], _VALUE | _BESIDE | _FITTING, x=x, y=y),
        *chart["layer"],
        layer(values, _VALUE, x=x, y=y, text=quantity("y", format=".0f")),
        layer(_above(values, rows), _ABOVE, x=x, y=y, text={"field": "why"}),
        *_strip(sweep, lost, x),
        *_bend(sweep, rows),
    ]
    return chart


def _strip(sweep: Sweep, lost: Sequence[Row], x: Spec) -> list[Spec]:
    """A strip below the axis with a cross at each point that does not fit."""
    top: Spec = {"value": {"expr": f"height - {_STRIP_PX}"}}
    middle: Spec = {"value": {"expr": f"height - {_STRIP_PX // 2}"}}
    wide: Spec = {"x": {"value": 0}, "x2": {"value": "width"}, "y": top, "y2": {"value": "height"}}
    return [
        layer(lost[:1], _STRIP, **wide),
        layer(lost, _CROSS, x=x, y=middle, tooltip=tips(sweep, "efficiency")),
        layer(lost[-1:], _VALUE | _LOST, x=x, y=middle, text={"field": "text"}),
    ]


def _above(values: Sequence[Row], rows: Sequence[SweepRow]) -> list[Row]:
    """The highest point above the first, with what takes less time there."""
    timed = [row for row in rows if row.efficiency is not None]
    best = max(timed, key=lambda row: row.efficiency or 0.0)
    less, *_ = fell_most(timed[0], best)
    if (best.efficiency or 0.0) < (1 + ALIKE) * (timed[0].efficiency or 1.0) or not less:
        return []
    words = predictions.share_words(less)  # whose axes are thinner parts than the legend names
    why = f"less {'exposed communication' if words.startswith('exposed') else words}"
    return [{**value, "why": why} for value in values if value["label"] == best.point.label]


def _estimated(rows: Sequence[SweepRow]) -> str:
    """Returns what comes before the title of a chart with estimates among its points."""
    return "estimated " * any(row.is_estimated for row in rows if row.numbers.step_s)


def _without_stragglers(sweep: Sweep, rows: Sequence[SweepRow]) -> list[Row]:
    """The efficiency of steps that wait for no stragglers, from the last point before some do."""
    known = [
        (row, 100 * each) for row in rows if (each := row.efficiency_without_stragglers) is not None
    ]
    late = [at for at, (row, _) in enumerate(known) if row.numbers.straggling]
    return [
        {**place(sweep, row), "y": each, "short": f"{each:.0f} without"}
        | {"why": f"{each:.0f} without stragglers"}
        for row, each in known[max(0, late[0] - 1) if late else len(known) :]
    ]


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
    title = HEADING | {"text": capital(f"{_estimated(rows)}time of a step by {axis_title(sweep)}")}
    return chart | {"height": HEIGHT_PX + LEGEND_PX * lines, "title": title}


_WORK = "Work per chip and second (first = 100%)"
_GOOD = {"type": "rule", "strokeDash": [3, 3], "color": "#8a94a3"}
_LANE_PX, _STRIP_PX = 44, 26  # below the axis, and in it the strip of what has no value
_STRIP = {"type": "rect", "color": "#8a94a3", "opacity": 0.12, "cornerRadius": 4, "aria": False}
_LOST = {"align": "left", "dx": 10, "dy": 0, "color": CROSSED}
_VALUE = {"type": "text", "dy": -12, "fontWeight": 600, **INK}
_ABOVE = {"type": "text", "dy": -26, "color": QUIET}
_WITHOUT = {"type": "line", "strokeWidth": 2, "opacity": 0.45}
_BESIDE = {"align": "right", "dx": 12, "dy": -10}  # of its last point, at the right edge
_FITTING = {
    "text": {"expr": "width < 280 ? datum.short : datum.why"}
}  # beside the number of another point
_BEND = {"type": "rule", "strokeDash": [3, 3], "color": CROSSED}
_BEND_LABEL = {"type": "text", "color": CROSSED, "fontWeight": 600, "lineBreak": "\n"}


def _bend(sweep: Sweep, rows: Sequence[SweepRow]) -> list[Spec]:
    """Where efficiency falls below `GOOD`, with the part of the step that grew most there."""
    timed = sorted(
        (row for row in rows if row.efficiency is not None), key=lambda row: row.point.chips
    )
    bend = knee(timed)
    if bend is None:
        return []
    words = f"stops scaling: {predictions.share_words(bend.cause)}\n{bend.share:.0%} of the step"
    right = timed.index(bend.after) < len(timed) / 2
    side = {"align": "left", "dx": 6} if right else {"align": "right", "dx": -6}
    at = {**place(sweep, bend.after), "words": words}
    x = x_axis(sweep, rows)
    return [
        layer([at], _BEND, x=x, y={"value": 0}, y2={"value": HEIGHT_PX}),
        layer([at], _BEND_LABEL | side, x=x, y={"value": 14}, text={"field": "words"}),
    ]


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
        if row.outcome.state in _TOO_LARGE:
            needed = point.expected_bytes if peak is None else peak
            needs = "" if needed is None else f"{bytes_text(needed)} needed, "
            text = f"does not fit: {needs}{capacity}"
            self._add(self.too_large, row, point.capacity_bytes, text)
        elif peak is not None and not row.is_estimated:
            self._add(self.compiled, row, peak, f"{bytes_text(peak)} by the compiler")
        elif (expected := point.expected_bytes) is not None:
            self._add(self.estimated, row, expected, f"{bytes_text(expected)} by its sizes")

    def _add(self, points: list[Row], row: SweepRow, count: float, text: str) -> None:
        y = count / self.size
        points.append({**place(self.sweep, row), "y": y, "text": text})
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
    y["scale"]["domainMax"] = 1.1 * (memory.highest or 1.0)  # a cross stays in sight
    shared = {"x": chart["encoding"]["x"], "y": y, "tooltip": tips(sweep, "memory")}
    line = _CAPACITY_TICK if sweep.is_categorical else _CAPACITY_LINE
    chart["layer"] = [
        layer(memory.capacity, line, **shared),
        *chart["layer"],
        layer(memory.estimated, _ESTIMATED, color=OWN, **shared),
        layer(memory.too_large, _CROSS, **shared),
    ]
    return chart


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
    drawn = {name: CHARTS[name](sweep, rows) for name in dict.fromkeys((*first, *CHARTS))}
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
    if row.outcome.state in _TOO_LARGE:
        return "does not fit"
    peak = row.numbers.peak_bytes
    count = row.point.expected_bytes if peak is None else peak
    return None if count is None else bytes_text(count)

"""A sweep's curves as charts that share their x axis; Vega-Lite as dicts, nothing is drawn here."""

import math
from collections.abc import Callable, Sequence

from spmd_core.base import bytes_text, seconds_text
from spmd_core.search import Sweep, SweepRow
from spmd_core.words import axis_title
from ui.charts.base import BYTES, SECONDS, Spec, unit
from ui.predict.sweep_axes import (
    CROSSED,
    HEIGHT_PX,
    LEGEND_PX,
    OWN,
    curve,
    is_steep,
    place,
    value_of,
)

MAX_KINDS = 3  # of collectives, in the chart of exposed communication


def step_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Seconds of a step: the estimate within its interval."""
    size, name = unit([row.numbers.step_s for row in rows if row.numbers.step_s], SECONDS)
    values = [
        value_of(
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
    steep = is_steep([value["y"] for value in values])
    return curve(sweep, rows, values, f"Time of a step ({name})", zero=not steep, log=steep)


def mfu_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Model FLOPs utilization in percent, with the interval that the step's makes."""
    values = [
        value_of(
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
    return curve(sweep, rows, values, "MFU (%)", zero=True)


def rate_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Tokens per second and chip."""
    values = []
    for row in rows:
        numbers = row.numbers
        if numbers.tokens_per_s_per_chip and numbers.step_s and numbers.low_s and numbers.high_s:
            rate = numbers.tokens_per_s_per_chip
            values.append(
                value_of(
                    sweep,
                    row,
                    rate,
                    rate * numbers.step_s / numbers.high_s,
                    rate * numbers.step_s / numbers.low_s,
                    f"{rate:,.0f}",
                )
            )
    return curve(sweep, rows, values, "Tokens per second and chip", zero=True)


def efficiency_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Useful work per chip and second over that of the smallest point, in percent."""
    values = [
        value_of(sweep, row, 100 * row.efficiency, None, None, f"{row.efficiency:.1%}")
        for row in rows
        if row.efficiency is not None
    ]
    title = (
        "Scaling efficiency (%)"
        if sweep.variable.scales
        else "Work per chip and second (first = 100 %)"
    )
    return curve(sweep, rows, values, title, zero=True)


def memory_chart(sweep: Sweep, rows: Sequence[SweepRow]) -> Spec:
    """Peak per device by the compiler, the estimate from the sizes where it is not compiled yet, and
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
                **place(sweep, row),
                "y": limit,
                "said": f"capacity {bytes_text(point.capacity_bytes)}",
            }
        )
        if row.outcome.state in ("too large", "does not fit"):
            needed = peak if peak is not None else point.expected_bytes
            needs = "" if needed is None else f"{bytes_text(needed)} needed, "
            crossed.append(
                {
                    **place(sweep, row),
                    "y": limit,
                    "said": f"does not fit: {needs}capacity {bytes_text(point.capacity_bytes)}",
                }
            )
        elif peak is not None and not row.is_estimated:
            values.append(
                value_of(sweep, row, peak / size, None, None, f"{bytes_text(peak)} by the compiler")
            )
        elif point.expected_bytes is not None:
            guessed.append(
                {
                    **place(sweep, row),
                    "y": point.expected_bytes / size,
                    "said": f"{bytes_text(point.expected_bytes)} by its sizes",
                }
            )
    chart = curve(sweep, rows, values, f"Memory per device ({name})", zero=True)
    x, y = chart["encoding"]["x"], chart["encoding"]["y"]
    # a cross stays in sight
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
            "mark": {**line, "color": CROSSED},
            "encoding": {"x": x, "y": y, **tips},
        },
        *chart["layer"],
        {
            "data": {"values": guessed},
            "mark": {"type": "point", "filled": False, "size": 55},
            "encoding": {"x": x, "y": y, "color": OWN, **tips},
        },
        {
            "data": {"values": crossed},
            "mark": {
                "type": "point",
                "shape": "cross",
                "angle": 45,
                "filled": True,
                "size": 110,
                "color": CROSSED,
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
            value_of(sweep, row, 100 * share, None, None, f"{share:.1%}") | {"kind": kind}
            for kind, share in shares.items()
        ]
    chart = curve(sweep, rows, values, "Exposed communication (% of step)", zero=True)
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
    return chart | ({"height": HEIGHT_PX + LEGEND_PX} if len(order) > 1 else {})


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
    needs = "; ".join(f"{row.point.label}: {text}" for row in rows if (text := words[name](row)))
    return f"{name} by {axis_title(sweep)}: {needs or 'nothing yet'}"


def _memory_words(row: SweepRow) -> str | None:
    if row.outcome.state in ("too large", "does not fit"):
        return "does not fit"
    count = (
        row.numbers.peak_bytes if row.numbers.peak_bytes is not None else row.point.expected_bytes
    )
    return bytes_text(count) if count is not None else None

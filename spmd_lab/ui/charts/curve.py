"""The curves of a training run: the loss by step, and the seconds of each step, by strategy."""

from collections.abc import Mapping, Sequence

import streamlit as st

from spmd_core.base import seconds_text
from spmd_core.facts import STEP_TIME, by_curve, steps_drawn, thinned
from spmd_core.results import Result
from spmd_core.runs import RunStatus
from spmd_core.terms import title
from spmd_lab.ui.charts.base import (
    SECONDS,
    TOP,
    Spec,
    category,
    hover,
    layer,
    layered,
    quantity,
    unit,
)

# the greatest over the least: from here on, a straight axis shows only the beginning
_LOG_FROM = 20.0
_HEIGHT_PX = 260
_LINE: Spec = {"type": "line", "strokeWidth": 2, "opacity": 0.85, "interpolate": "linear"}
AS_WRITTEN = "as_written"  # what a small program runs as: one curve, which needs no legend
Curves = Mapping[str, Sequence[float]]


def curve_chart(name: str, curves: Curves, steps: Sequence[int]) -> Spec:
    """One line for each strategy over `steps`, with a dash of its own too: lines of equal losses
    are on top of each other.
    """
    values = [value for curve in curves.values() for value in curve]
    size, unit_name = unit(values, SECONDS) if name == STEP_TIME else (1.0, "")
    log = min(values) > 0 and max(values) > _LOG_FROM * min(values)
    y_title = f"time of a step ({unit_name})" if name == STEP_TIME else name
    rows = [
        {"row": title(strategy), "step": step + 1, "y": value / size}
        for strategy, curve in curves.items()
        for step, value in zip(steps, curve, strict=False)
    ]
    legend = TOP | {"columns": 3, "symbolStrokeWidth": 3} if list(curves) != [AS_WRITTEN] else None
    row = category("row", [title(strategy) for strategy in curves], legend=legend)
    lines = layer(
        rows,
        _LINE | {"point": len(steps) == 1},
        x=quantity(
            "step",
            title="step",
            axis={"tickMinStep": 1},
            scale={"zero": False, "nice": False},
        ),
        y=quantity(
            "y",
            title=y_title + (", logarithmic" if log else ""),
            scale={"type": "log"} if log else {"zero": False},
            axis={"tickCount": 4},
        ),
        color=row,
        strokeDash=row,
        tooltip=[
            *hover(row="strategy", step="step"),
            {"field": "y", "title": y_title, "format": ".4g"},
        ],
    )
    return layered([lines], _HEIGHT_PX)


def curve_alt(name: str, curves: Curves) -> str:
    """A chart of curves in words: the first and the last value of each."""
    text = seconds_text if name == STEP_TIME else "{:.4g}".format
    ends = ", ".join(
        f"{title(strategy)} {text(curve[0])} to {text(curve[-1])}"
        for strategy, curve in curves.items()
        if curve
    )
    return (
        f"{'Time of a step' if name == STEP_TIME else name.capitalize()} by step, from the "
        f"first to the last: {ends}"
    )


def draw_live(status: RunStatus) -> None:
    """What streams of a training run so far."""
    _draw(by_curve(status.series), steps_drawn(status.done), "live")


def draw_result(result: Result) -> None:
    """The curves of a training run that is over."""
    series = {
        f"{curve}/{name}": values
        for name, strategy in result.strategies.items()
        for curve, values in strategy.series.items()
    }
    if longest := max(map(len, series.values()), default=0):
        st.subheader("Training", anchor=False)
        drawn = {name: thinned(values) for name, values in series.items()}
        _draw(by_curve(drawn), steps_drawn(longest), "result")


def _draw(curves: Mapping[str, Curves], steps: Sequence[int], key: str) -> None:
    present = {name: curve for name, curve in curves.items() if any(curve.values())}
    columns = st.columns(len(present)) if present else ()
    for column, (name, curve) in zip(columns, present.items(), strict=True):
        column.vega_lite_chart(
            curve_chart(name, curve, steps), alt=curve_alt(name, curve), key=f"{key}-curve-{name}"
        )

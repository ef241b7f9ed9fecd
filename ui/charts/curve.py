"""The curves of a training run: the loss by step, and the seconds of each step, by strategy."""

from collections.abc import Mapping, Sequence

import streamlit as st

from spmd_core.base import seconds_text
from spmd_core.results import STEP_TIME, Result, RunStatus, by_curve, steps_drawn, thinned
from spmd_core.words import title
from ui.charts.base import CONFIG, SECONDS, Spec, unit

# the greatest over the least: from here on, a straight axis shows only the beginning
_LOG_FROM = 20.0
_HEIGHT_PX = 260
AS_WRITTEN = "as_written"  # what a small program runs as: one curve, which needs no legend
Curves = Mapping[str, Sequence[float]]


def curve_chart(name: str, curves: Curves, steps: Sequence[int]) -> Spec:
    """One line for each strategy over `steps`, told apart by dashes too: lines of equal losses lie
    on top of each other.
    """
    values = [value for curve in curves.values() for value in curve]
    size, unit_name = unit(values, SECONDS) if name == STEP_TIME else (1.0, "")
    log = min(values) > 0 and max(values) > _LOG_FROM * min(values)
    what = f"time of a step ({unit_name})" if name == STEP_TIME else name
    order = [title(strategy) for strategy in curves]
    rows = [
        {"row": title(strategy), "step": step + 1, "y": value / size}
        for strategy, curve in curves.items()
        for step, value in zip(steps, curve, strict=False)
    ]
    scale = {"type": "log"} if log else {"zero": False}
    row = {
        "field": "row",
        "type": "nominal",
        "sort": order,
        "scale": {"domain": order},
        "legend": {"orient": "top", "title": None, "columns": 3, "symbolStrokeWidth": 3}
        if list(curves) != [AS_WRITTEN]
        else None,
    }
    encoding = {
        "x": {
            "field": "step",
            "type": "quantitative",
            "title": "step",
            "axis": {"tickMinStep": 1},
            "scale": {"zero": False, "nice": False},
        },
        "y": {
            "field": "y",
            "type": "quantitative",
            "title": what + (", logarithmic" if log else ""),
            "scale": scale,
            "axis": {"tickCount": 4},
        },
        "color": row,
        "strokeDash": row,
        "tooltip": [
            {"field": "row", "title": "strategy"},
            {"field": "step"},
            {"field": "y", "title": what, "format": ".4g"},
        ],
    }
    mark = {
        "type": "line",
        "strokeWidth": 2,
        "opacity": 0.85,
        "interpolate": "linear",
        "point": len(steps) == 1,
    }
    return {
        "layer": [{"data": {"values": rows}, "mark": mark, "encoding": encoding}],
        "height": _HEIGHT_PX,
        "config": CONFIG,
    }


def curve_alt(name: str, curves: Curves) -> str:
    """A chart of curves in words: the first and the last value of each."""
    words = seconds_text if name == STEP_TIME else "{:.4g}".format
    told = ", ".join(
        f"{title(strategy)} {words(curve[0])} to {words(curve[-1])}"
        for strategy, curve in curves.items()
        if curve
    )
    return (
        f"{'Time of a step' if name == STEP_TIME else name.capitalize()} by step, from the "
        f"first to the last: {told}"
    )


def draw_live(status: RunStatus) -> None:
    """What streams of a training run so far."""
    _draw(by_curve(status.series), steps_drawn(status.done), "live")


def draw_result(result: Result) -> None:
    """The curves of a training run that is over."""
    longest = max(
        (len(values) for found in result.strategies.values() for values in found.series.values()),
        default=0,
    )
    if longest:
        series = {
            f"{curve}/{name}": thinned(values)
            for name, found in result.strategies.items()
            for curve, values in found.series.items()
        }
        st.subheader("Training", anchor=False)
        _draw(by_curve(series), steps_drawn(longest), "result")


def _draw(curves: Mapping[str, Curves], steps: Sequence[int], key: str) -> None:
    present = {name: found for name, found in curves.items() if any(found.values())}
    for place, (name, found) in zip(
        st.columns(len(present)) if present else (), present.items(), strict=True
    ):
        place.vega_lite_chart(
            curve_chart(name, found, steps), alt=curve_alt(name, found), key=f"{key}-curve-{name}"
        )

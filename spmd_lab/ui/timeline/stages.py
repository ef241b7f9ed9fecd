"""The schedule of a pipeline: what each stage does when, and in gray what it idles."""

import streamlit as st

from spmd_core.base import seconds_text
from spmd_core.plan import SCHEDULES, Plan
from spmd_core.time import SimulatedPipeline, pipeline_of
from spmd_lab.ui.charts.base import (
    SECONDS,
    TOP,
    Spec,
    category,
    hover,
    layer,
    layered,
    quantity,
    rows_axis,
    unit,
)
from spmd_lab.ui.markdown import plain

_KINDS = {
    "F": ("forward", "#3b76c4"),
    "B": ("backward", "#5aa6a0"),
    "W": ("gradients of weights", "#7a5cc7"),
}
_MOST_DRAWN = 10_000  # bars of a few pixels are no picture, and a browser takes long for more
_IDLE = ("idle", "rgba(169, 180, 194, 0.35)")  # the legend shows it as it is drawn


def show(plan: Plan) -> None:
    """Draw the schedule of a plan with stages, with the share that they idle."""
    schedule, simulated = SCHEDULES[plan.schedule], pipeline_of(plan)
    words = (
        f"{schedule.title} with {plan.parts} microbatches: "
        f"stages idle {simulated.bubble:.0%} of their time on average; the bar above is of the "
        "slowest."
    )
    pieces = plan.stages * plan.parts * plan.repeats * len(schedule.turn)
    if pieces <= _MOST_DRAWN:
        st.vega_lite_chart(_chart(simulated), alt=words, key="stages")
    st.caption(plain(words))


def _chart(simulated: SimulatedPipeline) -> Spec:
    size, name = unit([simulated.seconds], SECONDS)
    idle = [
        {"row": f"stage {stage}", "what": _IDLE[0], "start": 0.0, "end": simulated.seconds / size}
        for stage in range(len(simulated.took))
    ]
    runs = [
        {
            "row": f"stage {run.stage}",
            "what": _KINDS[run.kind][0],
            "number": run.microbatch,
            "start": run.start / size,
            "end": run.end / size,
            "time": seconds_text(run.end - run.start),
        }
        for run in simulated.runs()
    ]
    legend = (
        *(shown for kind, shown in _KINDS.items() if kind in simulated.schedule.turn),
        _IDLE,
    )
    channels: Spec = {
        "x": quantity("start", title=f"time ({name})", axis={"grid": False}),
        "x2": {"field": "end"},
        "y": rows_axis([str(row["row"]) for row in idle]),
        "color": category(
            "what", [what for what, _ in legend], legend=TOP, colors=[shade for _, shade in legend]
        ),
    }
    tips = hover(row="stage", what="pass", number="microbatch", time="takes")
    bar = {"type": "bar", "height": 22}
    layers = [
        layer(idle, bar, **channels),
        layer(runs, bar | {"stroke": "#ffffff", "strokeWidth": 0.5}, **channels, tooltip=tips),
    ]
    return layered(layers, {"step": 28})

"""The same at other sizes on Compare: where sharding begins to win."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.answers import SIZES
from spmd_core.base import RequestError, numbered, seconds_text
from spmd_core.experiment import Experiment
from spmd_core.surveys import point_size_words, size_headline, sizes_offer
from spmd_core.sweeps import SizePoint
from spmd_core.trials import known_sizes, sizes_of
from spmd_lab.ui import live
from spmd_lab.ui.charts.bandwidth import BYTES_LABELS
from spmd_lab.ui.charts.base import TOP, Spec, category, hover, layer, layered, quantity
from spmd_lab.ui.compare.view import View
from spmd_lab.ui.lab import as_viewer, batch, lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import attempt, done, draw_table

TAB = "Sizes"
_ROWS = ("one device", "best sharded")


def experiments_of(view: View) -> tuple[Experiment, ...]:
    """The sizes of what a view shows; none where it cannot be varied so."""
    try:
        return sizes_of(view.result)
    except RequestError:
        return ()


def draw(view: View) -> None:
    """The answer, a chart and a table of what is known; a button for what is not."""
    experiments = experiments_of(view)
    if at_work(experiments):
        _watch(experiments)
        return
    points = known_sizes(lab(), experiments)
    missing = [point.experiment for point in points if point.run is None]
    if len(missing) < len(points):
        _show(points)
    if missing:
        known = [point for point in points if point.run is not None]
        st.markdown(plain(sizes_offer(missing, known)))
        if st.button(
            f"Compute {numbered(len(missing), 'size')}",
            icon=":material/play_arrow:",
            key="sizes:ask",
        ):
            asked = batch()
            if done(lambda: [asked.submit(each) for each in missing]):
                st.rerun()


def at_work(experiments: Sequence[Experiment]) -> list[str]:
    """The runs of these sizes that are not over."""
    ids = {each.id for each in experiments}
    return [status.run for status in lab().active() if status.experiment.id in ids]


@st.fragment(run_every=2 * live.INTERVAL_S)
def _watch(experiments: tuple[Experiment, ...]) -> None:
    active = at_work(experiments)
    if not active:
        st.rerun()
    with st.container(horizontal=True, vertical_alignment="center"):
        over = len(experiments) - len(active)
        st.progress(over / len(experiments), text=f"{over} of {len(experiments)} sizes")
        if st.button("Cancel", key="sizes:cancel", icon=":material/stop_circle:"):
            attempt(as_viewer, lab().cancel, *active)
    _show(known_sizes(lab(), experiments))


def _show(points: Sequence[SizePoint]) -> None:
    known = sum(point.wins is not None for point in points)
    if known:
        st.markdown(f"**{plain(size_headline(points))}**")
    if known == 1:  # a point is no curve
        return
    if known:
        st.vega_lite_chart(chart(points), alt=size_headline(points), key="sizes-chart")
    draw_table(SIZES.table(points, "screen"))


def chart(points: Sequence[SizePoint]) -> Spec:
    """Time on one device and of the best sharded strategy over the bytes of the operands."""
    rows = [
        {
            "size": point_size_words(point),
            "bytes": point.operand_bytes,
            "row": row,
            "y": seconds * 1e3,
            "time": seconds_text(seconds),
        }
        for point in points
        for row, seconds in zip(_ROWS, (point.alone_s, point.best_s), strict=True)
        if seconds is not None
    ]
    row = category("row", _ROWS, legend=TOP | {"symbolType": "stroke"})
    lines = layer(
        rows,
        {"type": "line", "point": True, "strokeWidth": 2},
        x=quantity(
            "bytes",
            title="bytes of operands, logarithmic",
            scale={"type": "log", "base": 2},
            axis={"labelExpr": BYTES_LABELS, "tickCount": 5},
        ),
        y=quantity(
            "y",
            title="time per call (ms), logarithmic",
            scale={"type": "log"},
            axis={"tickCount": 4},
        ),
        color=row,
        strokeDash=row,
        tooltip=hover(row="on", size="size", time="time"),
    )
    return layered([lines], 260)

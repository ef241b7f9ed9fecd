"""Predicted beside measured, over the runs that History lists: read only for who opens it."""

from collections.abc import Sequence
from functools import lru_cache

import streamlit as st

from spmd_core.base import UnreadableRun, count_text
from spmd_core.results import RunSummary
from spmd_core.time import Pair, calibration_of, pairs_of, with_roofline
from spmd_core.words import beside_words, experiment_words
from spmd_lab.ui.charts.beside import beside_chart
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain

MOST = 100  # runs that are read, the newest first


def draw(runs: Sequence[RunSummary]) -> None:
    """A chart of every timed program that has a prediction, and a line that sums it up."""
    box = st.expander(
        "Predicted beside measured",
        key="history:beside",
        on_change="rerun",
        icon=":material/scatter_plot:",
    )
    if not box.open:
        return
    timed = [run for run in runs if any(run.medians_s.values()) and not run.origin]
    pairs = [pair for run in timed[:MOST] for pair in _pairs(run.run, _calibrated(run))]
    with box:
        left = len(timed) - MOST
        more = f" Of the {count_text(MOST)} newest of {count_text(len(timed))}." if left > 0 else ""
        st.caption(plain(beside_words(pairs) + more))
        if pairs:
            st.vega_lite_chart(beside_chart(pairs), alt=beside_words(pairs), key="history:chart")


def _calibrated(run: RunSummary) -> str | None:
    """The calibration that a run is held against: a newer one makes other predictions."""
    return None if run.experiment.place.is_absent else lab().latest(calibration_of(run.experiment))


@lru_cache(maxsize=4 * MOST)
def _pairs(run: str, calibrated: str | None) -> tuple[Pair, ...]:
    try:
        result, known = lab().result(run), lab().result(calibrated) if calibrated else None
    except UnreadableRun:
        return ()
    if result is None:
        return ()
    predicted = result.by_variant(lambda each: with_roofline(each, known))
    return pairs_of(predicted, experiment_words(result.experiment))

"""Predicted beside measured, over the runs that History lists."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import median

import numpy as np
import streamlit as st

from spmd_core.base import UnreadableRun, count_text, mesh_text, seconds_text
from spmd_core.roofline import calibration_of, with_roofline
from spmd_core.runs import RunSummary
from spmd_core.terms import experiment_words
from spmd_lab.ui import cards
from spmd_lab.ui.charts.base import SECONDS, Row, Spec, hover, layer, layered, quantity, unit
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain

_HEIGHT_PX, _ROOM = 360, 1.25
_BAND = 1.25  # the dotted lines: predicted that many times too long, or too short
_LINE: Spec = {"type": "line", "clip": True, "strokeWidth": 1.5, "opacity": 0.6}
_POINT: Spec = {"type": "point", "filled": True, "size": 55, "opacity": 0.75}


FEWEST_RANKED = 5  # programs for which a rank correlation means something


MOST = 100  # runs that are read, the newest first


@dataclass(frozen=True, slots=True)
class Pair:
    """One timed program of a run; seconds."""

    run: str
    name: str
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """By what share of the measured time the prediction is above it."""
        return self.predicted_s / self.measured_s - 1


def draw(runs: Sequence[RunSummary]) -> None:
    """A chart of every timed program that has a prediction, and a line that sums it up."""
    timed = [run for run in runs if any(run.medians_s.values()) and not run.origin]
    pairs = [
        pair
        for run in timed[:MOST]
        for pair in _pairs(
            run.run,
            None
            if run.experiment.place.is_absent
            else lab().latest(calibration_of(run.experiment)),
        )
    ]
    left = len(timed) - MOST
    more = f" Of the {count_text(MOST)} newest of {count_text(len(timed))}." if left > 0 else ""
    st.caption(plain(beside_words(pairs) + more))
    if pairs:
        st.vega_lite_chart(beside_chart(pairs), alt=beside_words(pairs), key="history:chart")
    elif here := [run.experiment for run in timed if not run.experiment.place.is_absent]:
        asked = calibration_of(here[0])
        st.page_link(
            cards.page_of(asked),
            label=plain(f"Calibrate {asked.target}, mesh {mesh_text(asked.axis_sizes)}"),
            icon=":material/speed:",
            query_params=cards.query(asked),
        )


@lru_cache(maxsize=4 * MOST)
def _pairs(run: str, calibrated: str | None) -> tuple[Pair, ...]:
    try:
        result, known = lab().result(run), lab().result(calibrated) if calibrated else None
    except UnreadableRun:
        return ()
    if result is None:
        return ()
    predicted = result.by_variant(lambda each: with_roofline(each, known))
    title = experiment_words(result.experiment)
    return tuple(
        Pair(result.run, f"{title}, {strategy}", outcome.predicted_s.estimate, outcome.median_s)
        for strategy, outcome in predicted.strategies.items()
        if outcome.predicted_s and outcome.median_s and outcome.predicted_s.estimate > 0
    )


def beside_words(pairs: Sequence[Pair]) -> str:
    """How well predictions of some runs match: median error, rank correlation, and number of runs."""
    if not pairs:
        return "No run here has both: predictions need a calibration of their target and mesh."
    text = (
        f"{median_error(pairs):.0%} median error of {count_text(len(pairs))} timed "
        f"{'program' if len(pairs) == 1 else 'programs'}"
    )
    if len(pairs) >= FEWEST_RANKED:
        text += f"; rank correlation {spearman(pairs):.2f}"
    worst = max(pairs, key=lambda each: abs(math.log(each.predicted_s / each.measured_s)))
    return (
        f"{text}. Furthest off: {worst.name}, predicted {seconds_text(worst.predicted_s)}, "
        f"measured {seconds_text(worst.measured_s)}."
    )


def median_error(pairs: Sequence[Pair]) -> float:
    """The median of |predicted / measured - 1|."""
    return median(abs(each.error) for each in pairs)


def spearman(pairs: Sequence[Pair]) -> float:
    """Rank correlation of predicted and measured; ties share their mean rank."""
    left, right = (
        _ranks(np.array(values))
        for values in zip(*((each.predicted_s, each.measured_s) for each in pairs), strict=True)
    )
    if left.std() == 0 or right.std() == 0:
        return 0.0
    return float(np.corrcoef(left, right)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def beside_chart(pairs: Sequence[Pair]) -> Spec:
    """On the line where predicted is as measured; dotted, 25% off."""
    both = [seconds for each in pairs for seconds in (each.predicted_s, each.measured_s)]
    size, name = unit(both, SECONDS)
    ends = min(both) / size / _ROOM, max(both) / size * _ROOM
    axes = {
        channel: quantity(
            field,
            title=f"{field} ({name})",
            scale={"type": "log", "domain": list(ends), "nice": False},
            axis={"format": "~g", "tickCount": 5},
        )
        for channel, field in (("x", "measured"), ("y", "predicted"))
    }
    lines = [
        layer(
            [{"measured": end, "predicted": end * factor} for end in ends],
            _LINE | {"strokeDash": dash},
            **axes,
        )
        for factor, dash in ((1.0, [1, 0]), (_BAND, [3, 4]), (1 / _BAND, [3, 4]))
    ]
    tooltip = hover(
        name="program",
        measured_text="measured",
        predicted_text="predicted",
        error="error",
        run="run",
    )
    points = layer([_point(each, size) for each in pairs], _POINT, **axes, tooltip=tooltip)
    return layered([*lines, points], _HEIGHT_PX)


def _point(pair: Pair, size: float) -> Row:
    return {
        "measured": pair.measured_s / size,
        "predicted": pair.predicted_s / size,
        "name": pair.name,
        "run": pair.run,
        "measured_text": seconds_text(pair.measured_s),
        "predicted_text": seconds_text(pair.predicted_s),
        "error": f"{pair.error:+.0%}",
    }

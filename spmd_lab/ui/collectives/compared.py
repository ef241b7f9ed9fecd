"""What a sweep of collectives is compared with: other chips, predicted, or another stored sweep."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import streamlit as st

from spmd_core.base import RequestError, numbered, shorten
from spmd_core.experiment import Experiment
from spmd_core.machine import CHIPS, get_topology
from spmd_core.results import Point
from spmd_core.roofline import expected_spans, measured, on_topology, spans_of
from spmd_core.runs import RunSummary
from spmd_core.terms import axes_words, experiment_words, kind_title
from spmd_lab.ui import choices, state
from spmd_lab.ui.collectives import card
from spmd_lab.ui.collectives.card import Shown
from spmd_lab.ui.lab import lab

MOST_OTHERS = 20  # stored sweeps that are offered
_NOTHING = "nothing"
_LINKED = choices.Linked("collectives", choices.BESIDE)


def choose(experiment: Experiment, run: str | None, shown: Shown) -> tuple[Shown, str]:
    """Draws what a sweep is compared with: as many chips of another generation, predicted, another
    stored sweep, or nothing.

    Returns:
      What is shown, with the points there, or with a generation to offer; and why a comparison
      that was chosen cannot be made, "" if it can.
    """
    predicted, stored = (
        _predicted_elsewhere(experiment, shown.size),
        _stored_elsewhere(experiment, run),
    )
    named = {each: f"{name}, predicted" for each, (name, _) in predicted.items()} | stored
    if not named:
        return shown, ""
    is_attached = not (experiment.place.is_absent or experiment.place.is_simulated)
    first = [*predicted][: int(is_attached)]
    offered = [*first, _NOTHING, *(each for each in named if each not in first)]
    key, fresh = state.key("collectives", choices.BESIDE), _LINKED.from_query()
    kept = _LINKED.now() or offered[0]
    chosen = kept if fresh else st.session_state.get(key, kept)
    chosen = _NOTHING if chosen == run else chosen
    there, why = _there(chosen, shown, predicted, named)
    st.session_state[key] = _NOTHING if why else chosen
    chosen = st.selectbox(
        "Compare with",
        offered,
        key=key,
        format_func=lambda each: named.get(each, "nothing"),
        width=290,
    )
    _LINKED.keep("" if chosen == offered[0] else chosen)
    rival = next(iter(predicted), "") if chosen == _NOTHING else ""
    return replace(there, rival=rival), why


def _there(
    chosen: str,
    shown: Shown,
    predicted: Mapping[str, tuple[str, Sequence[Point]]],
    named: Mapping[str, str],
) -> tuple[Shown, str]:
    """Returns `shown` with the points of a comparison, or why there is none."""
    if chosen == _NOTHING:
        return shown, ""
    if chosen not in named:
        if chosen in CHIPS and not predicted:
            return shown, f"{chosen} is predicted, and compared with predicted chips alone."
        if chosen in CHIPS:
            return shown, f"{chosen} is the target's own chip: choose another to compare with."
        return shown, f"No run {shorten(chosen, 40)} is stored here to compare with."
    if chosen in predicted:
        name, points = predicted[chosen]
        spans = spans_of(get_topology(f"tpu:{name}"))
        there = replace(shown, other=f"{name}, predicted", others=points, other_spans=spans)
    else:
        there = _with_run(shown, chosen)
    if not there.of(there.others):
        what = f"{kind_title(shown.kind)} {axes_words(shown.over.split('+'))}"
        return shown, f"Not compared with {named[chosen]}: it has no {what}."
    return there, ""


def _with_run(shown: Shown, run: str) -> Shown:
    """Returns `shown` with the points of a stored sweep."""
    if (result := lab().result(run)) is None:
        return shown
    place = result.experiment.place
    name = "simulated" if result.environment.simulated else "the other run"
    points, spans = measured(result).points, expected_spans(place)
    return replace(shown, other=name, others=points, other_spans=spans)


def _stored_elsewhere(experiment: Experiment, run: str | None) -> dict[str, str]:
    """Returns the names of other stored sweeps, by run."""
    listed = lab().history(
        workload=experiment.workload, over=True, limit=MOST_OTHERS, source="examples"
    )
    return {each.run: _where_words(each) for each in listed if each.run != run}


def _predicted_elsewhere(
    experiment: Experiment, size: int
) -> dict[str, tuple[str, tuple[Point, ...]]]:
    """Returns what is predicted of the same collectives on other chips, with their topology, by
    generation.
    """
    predicted = {}
    for name, there in () if experiment.place.is_simulated else card.elsewhere(experiment):
        with suppress(RequestError):
            predicted[str(there.place.generation)] = name, on_topology(there, size)
    return predicted


def _where_words(run: RunSummary) -> str:
    """Returns where a stored sweep ran, and whether its devices were simulated."""
    if not run.experiment.place.is_simulated:
        return experiment_words(run.experiment)
    here = "an example" if run.origin else "this machine"
    return f"{here}, {numbered(run.experiment.device_count, 'simulated device')}"

"""A variant of a prediction on Predict itself: the one before is kept, and beside it is that of the
fields, however they are changed.
"""

import streamlit as st

from spmd_core.base import seconds_text
from spmd_core.experiment import Experiment
from spmd_core.facts import Prediction
from spmd_core.terms import experiment_words
from spmd_core.time import estimate_step
from spmd_lab.ui import price, run_tables, state
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict.beside import numbers_table, study
from spmd_lab.ui.shell import draw_table

_SCREEN, _KEPT = "predict", "variant"
_ADD = "Keeps this prediction as A. Change the fields: what they show is B, and both are compared here."
_NOTHING = "Change a field: what the fields show is B, and both are compared here."


def draw(experiment: Experiment) -> None:
    """A button that keeps an experiment; and what is kept beside that of the fields."""
    kept: Experiment | None = state.aside(_SCREEN, _KEPT)
    if kept is None:
        _button("Add a variant", "add", _ADD, experiment)
        return
    with st.container(border=True, key="variant"):
        st.markdown(f"**A**: {plain(experiment_words(kept))}")
        if kept == experiment:
            st.caption(_NOTHING)
        else:
            _compared(kept, experiment)
        with st.container(horizontal=True):
            _button("Remove A", "close", "Shows the prediction of the fields alone.", None)
            if kept != experiment:
                _button("Make B the new A", "push_pin", "Keeps B in place of A.", experiment)
                if st.button(
                    "Back to A", type="tertiary", icon=":material/undo:", key="predict:variant:back"
                ):
                    state.replace(_SCREEN, kept)
                    st.rerun()
                study(kept, experiment, "variant")


def _button(label: str, icon: str, help_: str, kept: Experiment | None) -> None:
    st.button(
        label,
        icon=f":material/{icon}:",
        key=f"predict:variant:{icon}",
        type="tertiary",
        help=help_,
        on_click=state.set_aside,
        args=(_SCREEN, _KEPT, kept),
    )


def _compared(kept: Experiment, now: Experiment) -> None:
    st.markdown(f"**B**: {plain(experiment_words(now))}")
    both, basis = predictions(kept, now)
    if both is None:
        st.caption("Press Predict to compile B: then both are compared here.")
        return
    sizes = [(each.plan.tokens, each.plan.topology.chips) for each in (kept, now) if each.plan]
    st.markdown(f"**{plain(sentence(*both, (len(set(sizes)) < 2)))}**")
    st.caption(plain(basis))
    draw_table(numbers_table(*both, price.now()))
    draw_table(run_tables.differences_table([kept, now]))


def predictions(
    kept: Experiment, now: Experiment
) -> tuple[tuple[Prediction, Prediction] | None, str]:
    """Returns the predictions of both, and how they were made: both compiled or both estimated, never
    one of each.
    """
    a, b = _compiled(kept), _compiled(now)
    if a and b:
        return (a, b), "Both as compiled."
    if kept.plan and now.plan:
        return (
            estimate_step(kept.plan),
            estimate_step(now.plan),
        ), "Both estimated from their sizes."
    return None, ""


def _compiled(experiment: Experiment) -> Prediction | None:
    run = lab().latest(experiment)
    result = lab().result(run) if run else None
    made = (each.prediction for each in result.strategies.values()) if result else ()
    return next(filter(None, made), None)


def sentence(a: Prediction, b: Prediction, are_alike: bool) -> str:
    """Returns which of both is faster by their intervals, or that none is: by the time of a step, or,
    where the steps are not alike in tokens and chips, by tokens per second and chip.
    """
    both = {"A": a, "B": b}
    times = {name: each.predicted_s for name, each in both.items() if each.predicted_s}
    if unfit := [name for name in both if name not in times]:
        return f"{' and '.join(unfit)} {'does' if len(unfit) == 1 else 'do'} not fit."
    rates = {name: each.tokens_per_s_per_chip or 1.0 for name, each in both.items()}
    per = {name: 1.0 if are_alike else rates[name] * times[name].estimate for name in both}
    fast, slow = sorted(both, key=lambda name: times[name].estimate / per[name])
    words = ", ".join(
        f"{name} {seconds_text(times[name].estimate)} a step"
        if are_alike
        else f"{name} {rates[name]:,.0f} tokens per second and chip"
        for name in (fast, slow)
    )
    if times[slow].low / per[slow] <= times[fast].high / per[fast]:
        return f"About even, as their intervals overlap: {words}."
    return f"{fast} is faster: {words}."

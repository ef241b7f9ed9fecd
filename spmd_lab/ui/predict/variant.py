"""A variant of a prediction on Predict itself: the one before is kept, and beside it is that of the
fields, however they are changed.
"""

from collections.abc import Sequence

import streamlit as st

from spmd_core.base import bytes_text, change_text, seconds_text
from spmd_core.experiment import Experiment, names_of
from spmd_core.facts import Prediction
from spmd_core.plan import Plan
from spmd_core.sweeps import training_run
from spmd_core.terms import experiment_words, money_text
from spmd_core.time import estimate_step
from spmd_core.words import days_text
from spmd_lab.ui import price, run_tables, state
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict import question
from spmd_lab.ui.predict.beside import numbers_table, study
from spmd_lab.ui.shell import draw_table

_SCREEN, _KEPT, _SHOWN = "predict", "variant", "shown"
_ADD = "Keeps this prediction as A. Change the fields: what they show is B, and both are compared here."
_SHORT = 90  # characters: what was changed is a line
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


def note(experiment: Experiment) -> None:
    """Keeps the plan and its question from before a field, an offer or a link changed them."""
    asked = question.asked()
    shown: tuple[Experiment, question.Asked] | None = state.aside(_SCREEN, _SHOWN)
    state.set_aside(_SCREEN, _SHOWN, (experiment, asked))
    if shown is not None and shown[0] != experiment:
        was = {name: value for name, value in shown[1].items() if value != asked[name]}
        state.note_change(_SCREEN, shown[0], experiment, was)


def changed(experiment: Experiment) -> None:
    """Draws what the last change of a plan made of days, dollars and memory, and a button that takes
    it back.
    """
    before = state.before_change(_SCREEN)
    if before is None or not before.plan or not experiment.plan:
        return
    was, now = names_of([before.to_json(), experiment.to_json()])
    compiled = _compiled(experiment)
    if compiled and not _compiled(before):  # the change that is new is that of the press
        _compiled_now(experiment.plan, compiled, was)
        return
    with st.container(horizontal=True, vertical_alignment="center", key="before-now"):
        line = f"**Before → now**, {plain(_change_words(before, experiment))}"
        what = f"{was} → {now}"
        if len(what) <= _SHORT:
            st.markdown(f"{line}  \n:small[{plain(what)}]")
        else:
            st.markdown(line, help=plain(what))
        if state.aside(_SCREEN, "offer"):  # its button is below: the line may be out of sight
            st.toast(line)
            state.set_aside(_SCREEN, "offer", None)
        _undo_button(was)


def _compiled_now(plan: Plan, compiled: Prediction, was: str) -> None:
    """Draws what compiling a plan made of its estimate."""
    with st.container(horizontal=True, vertical_alignment="center", key="before-now"):
        words = _changed_ends((estimate_step(plan), compiled), (plan, plan))
        st.markdown(f"**Estimated → compiled**: {plain(words)} per device.")
        _undo_button(was)


def _undo_button(was: str) -> None:
    st.button(
        "Undo",
        icon=":material/undo:",
        key="predict:undo",
        type="tertiary",
        help=plain(f"Back to {was}."),
        on_click=_undo,
    )


def _change_words(before: Experiment, now: Experiment) -> str:
    """Returns days, dollars and memory of two plans as the screen shows them; of one that is compiled
    and one that is not, also the days of both as estimated.
    """
    assert before.plan and now.plan
    plans = before.plan, now.plan
    compiled = _compiled(before), _compiled(now)
    estimates = estimate_step(before.plan), estimate_step(now.plan)
    shown = [made or rough for made, rough in zip(compiled, estimates, strict=True)]
    words = _changed_ends(shown, plans)
    was, takes = ("compiled" if made else "estimated" for made in compiled)
    line = f"{change_text(was, takes)}: {words} per device."
    if was == takes:
        return line
    (was, *_), (takes, *_) = map(_ends, estimates, plans)
    return f"{line} Both estimated: {change_text(was, takes)}."


def _changed_ends(shown: Sequence[Prediction], plans: Sequence[Plan]) -> str:
    """Returns those of days, dollars and memory that both have, as changes."""
    pairs = zip(*map(_ends, shown, plans), strict=True)
    return ", ".join(change_text(was, now) for was, now in pairs if was and now)


def _ends(prediction: Prediction, plan: Plan) -> tuple[str, str, str]:
    """Returns days, dollars (without a price chip-hours; "" of none) and memory of a plan, in words."""
    each = price.by_kind().get(plan.topology.chip.generation)
    run = training_run(prediction, plan, question.tokens(), each)
    peak = prediction.memory_bytes.peak
    held = bytes_text(peak) if peak else "too much"
    if run is None or not prediction.fits:
        return "does not fit", "", held
    spent = f"{run.chip_hours:,.0f} chip-hours" if run.money is None else money_text(run.money)
    return days_text(run.days.estimate), spent, held


def _undo() -> None:
    question.ask_again(state.undo(_SCREEN) or {})
    state.set_aside(_SCREEN, _SHOWN, (state.experiment(_SCREEN), question.asked()))


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
        st.caption("Press Compile for B: then both are compared here.")
        return
    sizes = [(each.plan.tokens, each.plan.topology.chips) for each in (kept, now) if each.plan]
    st.markdown(f"**{plain(sentence(*both, (len(set(sizes)) < 2)))}**")
    st.caption(plain(basis))
    draw_table(numbers_table(*both, (price.of(kept.target), price.of(now.target))))
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

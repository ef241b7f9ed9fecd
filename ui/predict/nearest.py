"""The nearest plan that should fit, offered where the instant estimate says that one does not."""

import streamlit as st

from spmd_core.experiment import Experiment, Plan
from spmd_core.results import Prediction
from spmd_core.time import estimate_step, nearest_fit
from spmd_core.words import model_words, nearest_words, predictions
from ui.cards import query
from ui.markdown import plain


def offer(plan: Plan, estimate: Prediction) -> None:
    """What to change so that a plan should fit, and a link that opens it; nothing where it fits."""
    if estimate.fits:
        return
    found = nearest_fit(plan)
    st.markdown(f":material/lightbulb: {plain(nearest_words(plan, found))}")
    if found and (parameters := query(found.experiment)):
        st.page_link(
            "pages/predict.py",
            label="Open that plan",
            icon=":material/arrow_forward:",
            query_params=parameters,
            width="content",
        )


def help_to_fit(experiment: Experiment) -> None:
    """Of a compiled program that does not fit: what helps, where no plan is offered as the next."""
    plan = experiment.plan
    if plan is None:
        st.markdown("What helps: more chips, or smaller dims.")
    elif nearest_fit(plan) is None:
        st.markdown(plain(nearest_words(plan, None)))


def verdict(experiment: Experiment) -> None:
    """For a card: whether the step that Predict has open should fit, red and with the nearest plan
    where not.
    """
    plan = experiment.plan
    if plan is None:
        return
    found = estimate_step(plan)
    said = predictions.estimate(found.before_compiling, plan)
    shown = plain(f"Open there: {model_words(plan)} on {plan.topology.name}. {said}")
    st.markdown(f":small[{shown}]" if found.fits else f":red[:material/error: {shown}]")
    offer(plan, found)

"""The nearest plan that fits, offered where the instant estimate does not fit."""

import streamlit as st

from spmd_core.advice import nearest_words
from spmd_core.experiment import Experiment, experiment_of
from spmd_core.facts import RINGS, Prediction, StoredFact
from spmd_core.plan import Plan
from spmd_core.program import is_ring
from spmd_core.time import nearest_fit
from spmd_core.words import fact_words
from spmd_lab.ui.cards import query
from spmd_lab.ui.markdown import coded, plain


def offer_context(plan: Plan) -> None:
    """A link that opens the plan with as many tokens a step, in sequences that its model sees."""
    if not plan.beyond_context:
        return
    sees = plan.size.context
    batch = round(plan.batch * plan.sequence / sees)
    experiment = experiment_of(plan).vary(dims={"sequence": sees, "batch": batch})
    if parameters := query(experiment):
        st.page_link(
            "pages/predict.py",
            label=f"Use sequences of {sees:,} tokens",
            icon=":material/arrow_forward:",
            query_params=parameters,
            width="content",
        )


def offer_without_rings(plan: Plan, prediction: Prediction) -> None:
    """A link that opens the plan without collective matmuls, where there are or may be some."""
    may = any(fact.kind == RINGS for fact in prediction.facts or ()) or any(
        map(is_ring, prediction.collectives)
    )
    if not may or not plan.makes_rings:
        return
    if parameters := query(experiment_of(plan.without_rings)):
        st.page_link(
            "pages/predict.py",
            label="Try it without collective matmuls",
            icon=":material/flag:",
            query_params=parameters,
            width="content",
            help=coded(fact_words(StoredFact(kind=RINGS))),
        )


def help_to_fit(experiment: Experiment) -> None:
    """Of a compiled program that does not fit: what helps, where no plan is offered as the next."""
    plan = experiment.plan
    if plan is None:
        st.markdown("What helps: more chips, or smaller dims.")
    elif nearest_fit(plan) is None:
        st.markdown(plain(nearest_words(plan, None)))

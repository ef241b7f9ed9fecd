"""The answer of a search where nothing is sure to fit: what comes nearest, and more chips."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.answers import Figure, batch_figure, five_figures, plan_policy
from spmd_core.base import bytes_text, mesh_text
from spmd_core.experiment import experiment_of
from spmd_core.facts import Prediction
from spmd_core.plan import Plan
from spmd_core.search import Answer, ModelQuestion
from spmd_core.surveys import search as words
from spmd_core.sweeps import none_fits, training_run
from spmd_core.words import tokens_text
from spmd_lab.ui import cards
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.predict import question as training
from spmd_lab.ui.predict.run_answer import held_figure
from spmd_lab.ui.search import question_inputs
from spmd_lab.ui.shell import draw_figures

Figures = Sequence[Figure]


def draw(answer: Answer, may: tuple[Figures, Figures] | None) -> bool:
    """Draws that nothing is sure to fit, `may`: the figures of the first that may, and a button that
    searches more chips. Returns False of a question to which no candidate has a size.
    """
    if (near := none_fits(answer)) is None:
        return False
    color = "orange" if may or near.in_parts else "red"
    with st.container(border=True, key="answer"):
        headline = f":{color}[{plain(words.none_fits_headline(answer, near))}]"
        row = cards.headline(headline, "Estimated")
        limit = answer.question.memory_bytes if answer.question.kind == "model" else None
        if may is None and not (limit or near.in_parts) and (why := words.why_none_fits(near)):
            st.markdown(plain(why))
        draw_figures(*(may or _figures(near.plan, near.step, limit)))
        if near.in_parts:
            st.page_link(
                "pages/predict.py",
                label="Open on Predict",
                icon=":material/open_in_new:",
                query_params=cards.query(experiment_of(near.plan)),
                width="content",
            )
        st.markdown(f":material/lightbulb: **{plain(words.fits_near_words(near))}**")
        if near.more and st.button(
            f"Search on {plain(words.more_chips_words(near))}",
            type="primary",
            key="search:more-chips",
            icon=":material/arrow_forward:",
        ):
            question_inputs.show(near.more)
            st.rerun()
        with cards.how_sure(row):
            st.markdown(plain(words.search_headline(answer)))
            st.markdown(plain(words.space_words(answer)))
    return True


def offers_more(answer: Answer | None) -> bool:
    """Returns True if more chips are offered in place of a search."""
    if answer is None or answer.winner or not isinstance(answer.question, ModelQuestion):
        return False
    near = none_fits(answer)
    return near is not None and near.more is not None


def _figures(plan: Plan, step: Prediction, limit: int | None) -> tuple[Figures, Figures]:
    held = held_figure(step)
    if limit:
        share = (step.memory_bytes.peak or 0) / limit
        more = f"of {bytes_text(limit)} per device"
        held = held._replace(more=more, filled=share, fit="does not fit")
    on = f"on {plan.topology.name.removeprefix('gpu:')}"
    is_fit = step.fit == "fits" and not limit
    mesh = Figure("Plan" if is_fit else "Nearest to fitting", mesh_text(plan.mesh, " "), on)
    of = [mesh, batch_figure(plan), Figure("Remat", plan_policy(plan))]
    if not is_fit:
        return [held], of
    run = training_run(step, plan, training.tokens())
    _, _, takes, days, *_ = five_figures(plan, step, run)
    return [days._replace(title=f"For {tokens_text(training.tokens())}"), takes, held], of

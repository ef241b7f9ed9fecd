"""The question in the address bar, what the screen shows before it was searched, and other ones."""

import contextlib

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import Experiment
from spmd_core.search import AnyQuestion, ArrayQuestion, link
from spmd_core.surveys import search as words
from spmd_core.terms import ago
from spmd_core.trials import searches as running
from spmd_core.workloads import programs
from spmd_lab.ui import cards, state
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.search import answer, question_inputs

QUERY = "search"


def from_query() -> str | None:
    """Take the address bar's question into the fields, once; a sentence where it holds none."""
    code = st.query_params.get(QUERY, "")
    if not code or code == state.aside(question_inputs.SCREEN, "link"):
        return state.aside(question_inputs.SCREEN, "broken")
    state.set_aside(question_inputs.SCREEN, "link", code)
    broken = None
    try:
        question_inputs.show(link.decode(code))
    except RequestError as error:
        broken = str(error)
    state.set_aside(question_inputs.SCREEN, "broken", broken)
    state.set_aside(question_inputs.SCREEN, "instead", None)
    return broken


def still(broken: str | None, question: AnyQuestion) -> str | None:
    """A broken link's sentence until the fields hold another question than beside it."""
    beside = state.aside(question_inputs.SCREEN, "instead")
    if broken is None or beside not in (None, question):
        state.set_aside(question_inputs.SCREEN, "broken", None)
        return None
    state.set_aside(question_inputs.SCREEN, "instead", question)
    return broken


def write_query(question: AnyQuestion) -> None:
    """Write what the screen shows to the address bar."""
    try:
        code = link.encode(question)
    except RequestError:
        return
    if st.query_params.get(QUERY) != code:
        state.set_aside(question_inputs.SCREEN, "link", code)
        st.query_params[QUERY] = code


def answered(question: AnyQuestion) -> None:
    """Note whose answer the screen shows, to show it beside fields that were changed since."""
    state.set_aside(question_inputs.SCREEN, "answered", question)


def before(kind: str) -> None:
    """Draws, gray, the answer of a computation that was shown before the fields changed: an answer
    of another model would stay for good.
    """
    last = state.aside(question_inputs.SCREEN, "answered") if kind != "model" else None
    search = running.find(lab(), last) if last else None
    if search is None or not search.is_over or search.question.kind != kind:
        st.caption("No estimate at once: *Search* looks through the candidates.")
        return
    asked = plain(words.asked_words(search.question))
    st.subheader(f"{answer.BEFORE}: {asked}", anchor=False)
    with st.container(key="stale"):
        answer.headline(search.answer, answer.BEFORE)
        answer.ranked(search.answer)


def others(shown: AnyQuestion) -> None:
    """What else was searched here, to be opened again."""
    past = []
    for each in running.latest(lab()):
        with contextlib.suppress(RequestError):  # of another version
            past.append((link.question_of(each.question), each))
    past = [(question, each) for question, each in past if question.id != shown.id]
    if not past:
        return
    st.subheader("Searched before", anchor=False)
    for number, (question, each) in enumerate(past):
        kept = words.kept_words(lab().searches.find(each.id)) if each.words else "No answer yet."
        with st.container(horizontal=True, vertical_alignment="center", border=True):
            st.markdown(
                f"**{plain(words.asked_words(question))}**  \n{plain(kept)}  \n"
                f":small[{plain(ago(each.updated_at))}]",
                width="stretch",
            )
            if program := _program_of(question):
                st.page_link(
                    cards.page_of(program),
                    label="Open on Programs",
                    query_params=cards.query(program),
                )
            elif st.button("Open", key=f"search:past:{number}"):
                question_inputs.show(question)
                st.rerun()


def _program_of(question: AnyQuestion) -> Experiment | None:
    """The exported program that a search is of, whose answer its own screen has; None of others."""
    if not isinstance(question, ArrayQuestion) or not (program := question.spec.get("program")):
        return None
    target = question.targets[0]
    with contextlib.suppress(RequestError):  # a program that was deleted
        mesh = programs.find(program).mesh or (("x", question.count(target)),)
        return question.experiment(target, mesh=dict(mesh))
    return None

"""Which mesh and specs would be better for a program: a search over both, on its target."""

import streamlit as st

from spmd_core.experiment import Experiment
from spmd_core.search import ArrayQuestion, read_array_question
from spmd_core.trials import searches as running
from spmd_lab.ui import shell
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.search import answer

BUDGET_S = 120.0  # for compiling, and for measuring what runs here


LABEL = "Search meshes and specs"


def _question(experiment: Experiment) -> ArrayQuestion:
    given = experiment.to_json()
    form = {name: given[name] for name in ("workload", "program", "target", "dims")}
    known = lab().devices("local") if experiment.target == "local" else None
    count = known.device_count if known else None
    return read_array_question(form | {"mesh": None, "specs": None}, count)


def offer(experiment: Experiment, is_first: bool) -> None:
    """Draws the button of the search in a card; nothing where it was begun."""
    if is_begun(experiment):
        return
    if st.button(
        LABEL,
        type="primary" if is_first else "secondary",
        icon=":material/travel_explore:",
        key="better_mesh:card",
        help=plain(_costs(experiment)),
    ):
        answer.begin(_question(experiment), BUDGET_S)


def is_begun(experiment: Experiment) -> bool:
    """Returns True if a search of this program on this target is at work, or was."""
    return running.find(lab(), _question(experiment)) is not None


def _costs(experiment: Experiment) -> str:
    return (
        f"Compiles sizes of the mesh axes on {experiment.device_count} devices, and other specs of "
        f"each group, for {BUDGET_S:g} seconds: the most promising first."
    )


def draw(experiment: Experiment) -> None:
    """The search of this program on this target: its answer, its progress, or the button."""
    question = _question(experiment)
    search = running.find(lab(), question)
    with st.expander("Which mesh and specs are better?", expanded=search is not None):
        if search and not search.is_over:
            answer.watch(search)
            return
        if search is None:
            st.caption(plain(_costs(experiment)))
        elif search.problem:
            shell.refusal(search.problem_words)
        if search and search.answer.winner:  # its card has the button that goes on
            is_pressed = answer.headline(search.answer)
        else:
            label = "Keep searching" if search else LABEL
            is_pressed = st.button(label, icon=":material/travel_explore:", key="better_mesh")
        if is_pressed:
            answer.begin(question, BUDGET_S)
        if search:
            answer.details(search.answer)

"""Which mesh and specs would be better for a program: a search over both, on its target."""

import streamlit as st

from spmd_core.experiment import Experiment
from spmd_core.search import read_array_question
from spmd_core.trials import searches as running
from spmd_lab.ui import shell
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.search import answer

BUDGET_S = 120.0  # for compiling, and for measuring what runs here


def draw(experiment: Experiment) -> None:
    """The search of this program on this target: its answer, its progress, or the button."""
    given = experiment.to_json()
    form = {name: given[name] for name in ("workload", "program", "target", "dims")}
    known = lab().devices("local") if experiment.target == "local" else None
    count = known.device_count if known else None
    question = read_array_question(form | {"mesh": None, "specs": None}, count)
    search = running.find(lab(), question)
    with st.expander("Which mesh and specs are better?", expanded=search is not None):
        if search and not search.is_over:
            answer.watch(search)
            return
        if search is None:
            st.caption(
                plain(
                    f"Compiles sizes of the mesh axes on {experiment.device_count} devices, and "
                    f"other specs of each group, for {BUDGET_S:g} seconds: the most promising first."
                )
            )
        label = "Keep searching" if search else "Search meshes and specs"
        if st.button(label, icon=":material/travel_explore:", key="better_mesh"):
            answer.begin(question, BUDGET_S)
        if search:
            if search.problem:
                shell.refusal(search.problem_words)
            answer.headline(search.answer)
            answer.details(search.answer)

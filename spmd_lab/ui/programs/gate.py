"""The lines that take the changes of a program to its author's repository, and keep what is wrong out."""

import streamlit as st

from spmd_core.advice import expected_words, gate_words, specs_words
from spmd_core.experiment import Experiment
from spmd_core.results import StepFinding
from spmd_lab.ui.programs import door

_SHORT = 12  # lines of code that are shown unfolded


def code(experiment: Experiment) -> None:
    """Draws the changed specs as code; nothing of a program as its author sharded it."""
    if lines := specs_words(experiment):
        is_short = lines.count("\n") < _SHORT
        with st.expander("In your code", icon=":material/code:", expanded=is_short):
            st.code(lines, language="python", wrap_lines=True)


def draw(experiment: Experiment, opened: list[StepFinding], listed: list[StepFinding]) -> None:
    """Draws the command that ends with 1 while the program has a finding, and a test that expects its
    specs.

    Args:
      experiment: the program as it is changed.
      opened: the findings of its file.
      listed: those that are left.
    """
    with st.expander("Check it in CI", icon=":material/rule:"):
        file = door.file_name(experiment)
        st.caption("Ends with 1 while the file has a finding:")
        st.code(gate_words(experiment, file), language="bash", wrap_lines=True)
        if opened:
            st.caption(f"The same with what the file has today accepted ({len(opened)}):")
            st.code(gate_words(experiment, file, opened), language="bash", wrap_lines=True)
        if listed and listed != opened:
            st.caption(
                f"Once the changes are in your code and it is exported again ({len(listed)}):"
            )
            st.code(gate_words(experiment, file, listed), language="bash", wrap_lines=True)
        if expected := expected_words(experiment):
            st.caption("A test that fails where these specs are lost; `spmd_lab` brings its mark:")
            st.code(expected, language="python", wrap_lines=True)

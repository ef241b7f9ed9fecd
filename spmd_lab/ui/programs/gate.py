"""The lines that keep what is wrong with a program out of its author's repository."""

import streamlit as st

from spmd_core.advice import expected_words, gate_words
from spmd_core.experiment import Experiment


def draw(experiment: Experiment) -> None:
    """Draws the command that ends with 1 while the program has a finding, and a test that expects its
    specs.
    """
    with st.expander("Check it in CI", icon=":material/rule:"):
        st.caption("Ends with 1 while the file has a finding:")
        st.code(gate_words(experiment), language="bash", wrap_lines=True)
        if expected := expected_words(experiment):
            st.caption("A test of pytest that fails where these specs are lost:")
            st.code(expected, language="python", wrap_lines=True)

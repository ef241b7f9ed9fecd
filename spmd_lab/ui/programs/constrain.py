"""Fields that constrain the value of a line, as a change of a program."""

import streamlit as st

from spmd_core.experiment import Experiment, Program, read_spec_words
from spmd_lab.ui import shell, state


def draw(experiment: Experiment, program: Program) -> None:
    """Draws the fields where the program names its lines."""
    if not program.described.files:
        return
    name = program.described.files[0].rpartition("/")[2]
    with st.expander("Constrain a value"), st.form("constrain", border=False):
        line = st.text_input("Line", placeholder=f"{name}:88", help="The last array of that line.")
        spec = st.text_input(
            "Spec",
            placeholder="data,None",
            help="Axes, or None, for each dim; axes of one dim joined by +.",
        )
        if st.form_submit_button("Constrain", icon=":material/push_pin:") and line and spec:
            specs = dict(experiment.to_json()["specs"] or {}) | {f"@{line}": read_spec_words(spec)}
            if sentence := shell.attempt(
                lambda: state.replace("programs", experiment.vary(specs=specs))
            ):
                shell.refusal(sentence)
            else:
                st.rerun()

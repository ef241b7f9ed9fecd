"""The effect of changed fields on what a program requests, before it is compiled."""

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.answers import WhatIf, what_if_table
from spmd_core.base import LabError
from spmd_core.experiment import Experiment, Program, read_spec_words
from spmd_core.words import count
from spmd_lab.ui import shell, state
from spmd_lab.ui.lab import as_viewer, lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.tables import sortable

SCREEN = "programs"


def draw(
    experiment: Experiment, program: Program, top: DeltaGenerator, below: DeltaGenerator
) -> None:
    """Draws at `top` the collectives that appear and vanish against the file as it was exported,
    and `below` the fields that constrain a value.
    """
    given = {"specs": {}, "mesh": dict(program.described.mesh or program.mesh)}
    before = experiment.vary(**given)
    if before != experiment:
        with top.container(border=True, key="what_if"):
            try:
                with st.spinner("Partitioning…"):
                    answer = as_viewer(lab().what_if, before, experiment)
            except LabError as error:
                shell.refusal(str(error))
                return
            _answer(answer)
    with below:
        _constrain(experiment, program)


def _answer(answer: WhatIf) -> None:
    st.markdown(f"**What if?** {plain(answer.headline)}")
    for column, (name, figure) in zip(st.columns(3), answer.figures, strict=False):
        column.metric(plain(name), plain(figure))
    with st.container(horizontal=True, vertical_alignment="center"):
        st.badge(plain(answer.made), icon=":material/bolt:", color="orange")
        if answer.agreement:
            st.caption(plain(answer.agreement))
    table = what_if_table(answer.changed, "screen")
    if table.rows:
        st.dataframe(sortable(table), hide_index=True, key="what_if_changes")
    if stays := len(answer.unchanged):
        st.caption(f"{count(stays, 'other')} {'stay' if stays > 1 else 'stays'}.")


def _constrain(experiment: Experiment, program: Program) -> None:
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
                lambda: state.replace(SCREEN, experiment.vary(specs=specs))
            ):
                shell.refusal(sentence)
            else:
                st.rerun()

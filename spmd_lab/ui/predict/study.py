"""From a prediction to a study of it on Compare: one more variant, or two predictions together."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import Experiment, study_of
from spmd_lab.ui import state

_ADD = (
    "Opens Compare with this prediction and a copy, to be changed there: mesh, rematerialization, "
    "topology, batch. All variants are then predicted side by side."
)


def add_variant(experiment: Experiment) -> None:
    """A button that opens Compare with a study of an experiment and a copy of it."""
    if st.button(
        "With a variant, on Compare",
        icon=":material/arrow_forward:",
        key="predict:variant",
        type="tertiary",
        help=_ADD,
    ):
        _open([experiment, experiment], at=1)


def both(one: Experiment, other: Experiment) -> None:
    """A button that makes a study of two experiments; none where they cannot be compared."""
    try:
        study_of([(None, one), (None, other)])
    except RequestError:
        return
    if st.button(
        "Both as a study on Compare", icon=":material/speed:", key="predict:both", type="tertiary"
    ):
        _open([one, other])


def _open(members: Sequence[Experiment], at: int = 0) -> None:
    """Show the study of these on Compare, its fields those of the member at `at`."""
    state.replace("compare", study_of([(None, each) for each in members]))
    state.set_run("compare", None)
    state.set_notice("compare", None)
    listed = state.variants("compare")
    state.set_variants("compare", listed, at)
    state.replace_draft("compare", listed[at][1])
    st.switch_page("pages/compare.py")

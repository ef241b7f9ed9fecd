"""A short link opens a run on the screen that shows it."""

import streamlit as st

from spmd_lab.ui import cards, choices
from spmd_lab.ui.entrance.short import OPEN
from spmd_lab.ui.lab import find


def follow() -> None:
    """Go to the run that the address names, or have it listed as missing: it may be imported."""
    run = st.query_params.get(OPEN, "")
    if not choices.RUN_ID.fullmatch(run):
        return
    st.query_params.pop(OPEN, None)
    if (status := find(run)) is not None:
        st.switch_page(
            cards.page_of(status.experiment), query_params=cards.query(status.experiment, run)
        )
    st.query_params["runs"] = run

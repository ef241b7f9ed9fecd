"""A short link opens a run on the screen that shows it."""

import streamlit as st

from spmd_core.base import shorten
from spmd_lab.ui import cards, choices
from spmd_lab.ui.entrance.short import OPEN
from spmd_lab.ui.lab import find
from spmd_lab.ui.markdown import plain


def follow() -> None:
    """Go to the run that the address names; a sentence where it is not stored here."""
    run = st.query_params.get(OPEN, "")
    if not run:
        return
    st.query_params.pop(OPEN, None)
    status = find(run) if choices.RUN_ID.fullmatch(run) else None
    if status is not None:
        st.switch_page(
            cards.page_of(status.experiment), query_params=cards.query(status.experiment, run)
        )
    if choices.RUN_ID.fullmatch(run):
        st.query_params["runs"] = run  # which is missing, and may be imported
        return
    st.info(
        plain(
            f"The link names run {shorten(run, 40)}, which is not the id of a run: copy all of it."
        ),
        icon=":material/link_off:",
    )

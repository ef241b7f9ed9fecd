"""A field that answers which devices hold one element of the array."""

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import Layout, read_element
from spmd_lab.ui import choices
from spmd_lab.ui.charts.layout_words import holders_text
from spmd_lab.ui.markdown import plain


def field(shards: Layout) -> None:
    """Draw the field, and the answer below it; nothing for a scalar."""
    if not shards.shape:
        return
    middle = ", ".join(str(size // 2) for size in shards.shape)
    text = st.text_input(
        "Which devices hold element …",
        key=choices.ELEMENT,
        placeholder=f"[{middle}]",
        max_chars=80,
        bind="query-params",
        icon=":material/my_location:",
    )
    if not text:
        return
    try:
        st.markdown(plain(holders_text(shards, read_element(text, shards.shape))))
    except RequestError as error:
        st.error(plain(str(error)), icon=":material/error:")

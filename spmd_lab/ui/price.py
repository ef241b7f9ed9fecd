"""The prices of a chip-hour that the viewer types: part of a screen's link, not of an experiment."""

from collections.abc import Mapping

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.words import read_price, read_prices_by_kind
from spmd_lab.ui import state
from spmd_lab.ui.markdown import plain

PRICE = "price"  # of the query string, and of what is kept for all screens
_EVERYWHERE = "costs"
_LONGEST = 200


def by_kind() -> Mapping[str, float]:
    """Returns dollars per chip-hour of each kind of chip that has a price."""
    try:
        return read_prices_by_kind(state.aside(_EVERYWHERE, PRICE) or "")
    except RequestError:
        return {}


def now() -> float | None:
    """Returns the one price of every chip; None where none was given, or several."""
    try:
        return read_price(state.aside(_EVERYWHERE, PRICE) or "")
    except RequestError:
        return None


def from_query() -> bool:
    """Takes the price that was typed; else of a link that was just opened, once. One that is none
    is left out. What is above the field on a screen reads it too.
    """
    if (typed := st.session_state.get(state.key(_EVERYWHERE, PRICE))) is not None:
        state.set_aside(_EVERYWHERE, PRICE, typed)
    text = st.query_params.get(PRICE, "")
    if not text or text == state.aside(_EVERYWHERE, "price.read"):
        return False
    state.set_aside(_EVERYWHERE, "price.read", text)
    state.set_aside(_EVERYWHERE, PRICE, text if len(text) <= _LONGEST else "")
    if not by_kind():
        state.set_aside(_EVERYWHERE, PRICE, "")
    return True


def field() -> None:
    """Draws the field."""
    key = state.key(_EVERYWHERE, PRICE)
    if from_query():
        st.session_state[key] = state.aside(_EVERYWHERE, PRICE)
    text = st.text_input(
        "Price per chip-hour ($)",
        key=state.seed(key, state.aside(_EVERYWHERE, PRICE) or ""),
        max_chars=_LONGEST,
        placeholder="4.20 or v5p=4.20",
        help="Turns chip-hours into dollars. It stays with the link.",
    )
    try:
        read_prices_by_kind(text)
    except RequestError as error:
        st.caption(f":red[{plain(str(error))}]")
        text = ""
    state.set_aside(_EVERYWHERE, PRICE, text)
    if text:
        state.set_aside(_EVERYWHERE, "price.read", text)
        st.query_params[PRICE] = text
    elif PRICE in st.query_params:
        del st.query_params[PRICE]

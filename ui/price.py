"""The price of a chip-hour that the viewer types: part of a screen's link, not of an experiment."""

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.words import HIGHEST_PRICE, read_price
from ui import state

PRICE = "price"  # of the query string, and of what is kept for all screens
_EVERYWHERE = "costs"


def field() -> float | None:
    """The field, and what it holds; a link's price is taken once, and one that is none is left
    out.
    """
    text = st.query_params.get(PRICE, "")[:32]
    fresh = bool(text) and text != state.aside(_EVERYWHERE, "read")
    if fresh:
        state.set_aside(_EVERYWHERE, "read", text)
        state.set_aside(_EVERYWHERE, PRICE, _number(text))
    key = state.key(_EVERYWHERE, PRICE)
    if fresh:
        st.session_state[key] = now()
    value = st.number_input(
        "Price per chip-hour ($)",
        value=None,
        min_value=0.0,
        max_value=HIGHEST_PRICE,
        step=0.1,
        format="%g",
        key=state.seed(key, now()),
        placeholder="e.g. 4.20",
        help="Turns chip-seconds into money on every prediction. It stays with the link.",
    )
    state.set_aside(_EVERYWHERE, PRICE, value or None)
    if value:
        text = f"{value:g}"
        state.set_aside(_EVERYWHERE, "read", text)
        if st.query_params.get(PRICE) != text:
            st.query_params[PRICE] = text
    elif PRICE in st.query_params:
        del st.query_params[PRICE]
    return value or None


def now() -> float | None:
    """Dollars per chip-hour; None where none was given."""
    return state.aside(_EVERYWHERE, PRICE)


def _number(text: str) -> float | None:
    try:
        return read_price(text)
    except RequestError:
        return None

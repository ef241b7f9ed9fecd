"""The price of a chip-hour that the viewer types: part of a screen's link, not of an experiment."""

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.words import HIGHEST_PRICE, read_price
from spmd_lab.ui import state
from spmd_lab.ui.choices import LinkNumber

PRICE = "price"  # of the query string, and of what is kept for all screens
_EVERYWHERE = "costs"


def _read(text: str) -> float | None:
    try:
        return read_price(text)
    except RequestError:
        return None


_price = LinkNumber(_EVERYWHERE, PRICE, _read)
now = _price.now  # dollars per chip-hour; None where none was given


def field() -> float | None:
    """The field, and what it holds; a link's price is taken once, and one that is none is left
    out.
    """
    key = state.key(_EVERYWHERE, PRICE)
    if _price.from_query():
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
    _price.keep(value)
    return value or None

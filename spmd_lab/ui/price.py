"""The prices of a chip-hour that the viewer types: part of a screen's link, not of an experiment."""

from collections.abc import Iterable, Mapping
from contextlib import suppress

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.terms import chip_title, read_price, read_prices_by_kind
from spmd_lab.ui import state
from spmd_lab.ui.choices import Linked
from spmd_lab.ui.markdown import plain

PRICE = "price"  # of the query string
_LONGEST = 200
_LINKED = Linked("costs", PRICE)  # one for all screens


def by_kind() -> Mapping[str, float]:
    """Returns dollars per chip-hour of each kind of chip that has a price."""
    try:
        return read_prices_by_kind(_LINKED.now())
    except RequestError:
        return {}


def text_of(kinds: Iterable[str]) -> str:
    """Returns the prices of some kinds of chip, as a question reads them."""
    known = by_kind()
    return ",".join(f"{kind}={known[kind]:.12g}" for kind in kinds if kind in known)


def of(target: str) -> float | None:
    """Returns the price of the chip of a target; None without one."""
    return by_kind().get(target.split(":")[1]) if ":" in target else None


def from_query() -> bool:
    """Takes the price that was typed, else of a link that was just opened, once. What is above the
    field on a screen reads it too.
    """
    typed = st.session_state.get(state.key(_LINKED.screen, PRICE))
    if typed is not None and refusal() is None:
        state.set_aside(_LINKED.screen, PRICE, typed)
    return _LINKED.from_query()


def refusal() -> str | None:
    """Returns why the price in the field is none; None where it is one. The last one stays."""
    try:
        read_prices_by_kind(st.session_state.get(state.key(_LINKED.screen, PRICE)) or "")
    except RequestError as error:
        return str(error)
    return None


def field(kind: str = "") -> None:
    """Draws the field; a number alone becomes the price of `kind`, the one chip that the screen
    shows, else that of every chip.
    """
    key = state.key(_LINKED.screen, PRICE)
    if from_query():
        st.session_state[key] = _LINKED.now()
    alone = f"4.20 is that of {chip_title(kind)}" if kind else "4.20 is that of every chip"
    text = st.text_input(
        "Price per chip-hour ($)",
        key=state.seed(key, _LINKED.now()),
        max_chars=_LONGEST,
        placeholder=f"4.20 or {kind or 'v5p'}=4.20",
        help=plain(
            f"Turns chip-hours into dollars. {alone}. Commas for several: v5p=4.20,v6e=2.70."
        ),
        on_change=_name_kind if kind else None,
        args=(key, kind),
    )
    if (why := refusal()) is None:
        _LINKED.keep(text)
    else:
        st.caption(f":red[{plain(why)}]")


def _name_kind(key: str, kind: str) -> None:
    with suppress(RequestError):
        st.session_state[key] = f"{kind}={read_price(st.session_state[key]):.12g}"

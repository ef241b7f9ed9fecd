"""Choices that a link carries: which tab, strategy, text and view of it are open."""

from collections.abc import Callable, Mapping, Sequence

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from ui.markdown import option

TAB, STRATEGY, TEXT, VIEW = "tab", "strategy", "text", "view"  # in the query string
SHOWN = "show"  # one of a screen's views, such as the sweep
ARROWS = "arrows"  # whose bytes the mesh with arrows shows
ONCE = "once"  # each of them as often as it runs, or one execution
RANKED = "by"  # the strategy by which a study ranks its variants
TO = "to"  # the spec that Layout reshards to
ELEMENT = "element"  # of the array on Layout, whose devices are named
LINKED = (TAB, STRATEGY, TEXT, VIEW, SHOWN, ARROWS, ONCE, RANKED, TO, ELEMENT)


def rename_tab(old: Mapping[str, str]) -> None:
    """Open the tab that has now what the tab of a link had, by its name of before."""
    name = st.query_params.get(TAB, "")
    if name in old:
        st.query_params[TAB] = st.session_state[TAB] = old[name]


def opened_tab(names: Sequence[str]) -> tuple[str, DeltaGenerator]:
    """Tabs, and the one that is open: only its content is made."""
    tabs = st.tabs(list(names), key=TAB, on_change="rerun", bind="query-params")
    opened = [(name, tab) for name, tab in zip(names, tabs, strict=True) if tab.open]
    return opened[0] if opened else (names[0], tabs[0])


def one_of(label: str, options: Sequence[str], key: str, words: Callable[[str], str] = str) -> str:
    """One of the options; the first, until a link or a click names another of them."""
    if st.session_state.get(key) not in options:
        st.session_state[key] = options[0]
    chosen = st.segmented_control(
        label,
        list(options),
        format_func=lambda each: option(words(each)),
        key=key,
        required=True,
        bind="query-params",
        label_visibility="collapsed",
    )
    return str(chosen) if chosen in options else options[0]

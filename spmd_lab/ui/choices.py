"""Choices that a link carries: which tab, strategy, text and view of it are open; and numbers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import streamlit as st
from streamlit.delta_generator import DeltaGenerator
from streamlit.errors import StreamlitAPIException

from spmd_lab.ui import state
from spmd_lab.ui.markdown import option

TAB, STRATEGY, TEXT, VIEW = "tab", "strategy", "text", "view"  # in the query string
SHOWN = "show"  # one of a screen's views, such as the sweep
ARROWS = "arrows"  # whose bytes the mesh with arrows shows
ONCE = "once"  # each of them as often as it runs, or one execution
RANKED = "by"  # the strategy by which a study ranks its variants
TO = "to"  # the spec that Layout reshards to
KIND = "kind"  # the collective that is shown
ELEMENT = "element"  # of the array on Layout, whose devices are named
_LONGEST = 32  # characters of a number in a link
DETAIL = "detail"  # the table of a run that is open
LINKED = (TAB, STRATEGY, TEXT, VIEW, SHOWN, ARROWS, ONCE, RANKED, TO, KIND, ELEMENT, DETAIL)


def now(key: str) -> str:
    """Returns what a choice that is drawn further down is at, by a click or else by a link."""
    return str(st.session_state.get(key) or st.query_params.get(key, ""))


def collective(count: int) -> int:
    """Returns the place of the selected collective of so many, 0 where none of them is named."""
    number = now(ARROWS)
    return int(number) - 1 if number.isdecimal() and 0 < int(number) <= count else 0


def rename_tab(old: Mapping[str, str]) -> None:
    """Open the tab that has now what the tab of a link had, by its name of before."""
    if (name := st.query_params.get(TAB, "")) in old:
        _open(TAB, old[name])


def _open(key: str, value: str) -> None:
    """Set a choice before it is drawn. Streamlit writes the address itself, and refuses to have it
    written, once the choice was drawn in a session.
    """
    st.session_state[key] = value
    with suppress(StreamlitAPIException):
        st.query_params[key] = value


def open_detail(names: Iterable[str]) -> None:
    """Open the table of details that a link names as a tab, which it was."""
    if (name := st.query_params.get(TAB, "")) in names:
        _open(DETAIL, name)


def opened_tab(names: Sequence[str], default: str | None = None) -> tuple[str, DeltaGenerator]:
    """Tabs, and the one that is open: only its content is made."""
    tabs = st.tabs(list(names), default=default, key=TAB, on_change="rerun", bind="query-params")
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


@dataclass(frozen=True, slots=True)
class LinkNumber:
    """A number of a screen: `name` in the query string, `read` from its text (None: none)."""

    screen: str
    name: str
    read: Callable[[str], float | None]

    def now(self) -> float | None:
        """The number; None where none was given."""
        return state.aside(self.screen, self.name)

    def from_query(self) -> bool:
        """Take the number of a link that was just opened, once; whether there was one."""
        text = st.query_params.get(self.name, "")[:_LONGEST]
        if not text or text == state.aside(self.screen, f"{self.name}.read"):
            return False
        state.set_aside(self.screen, f"{self.name}.read", text)
        state.set_aside(self.screen, self.name, self.read(text))
        return True

    def keep(self, value: float | None) -> None:
        """Remember a number, and write it to the address bar."""
        state.set_aside(self.screen, self.name, value or None)
        if value:
            text = f"{value:g}"
            state.set_aside(self.screen, f"{self.name}.read", text)
            if st.query_params.get(self.name) != text:
                st.query_params[self.name] = text
        elif self.name in st.query_params:
            del st.query_params[self.name]

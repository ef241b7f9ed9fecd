"""A number that a screen's link carries beside the experiment, such as a price."""

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from ui import state

_LONGEST = 32  # characters of a number in a link


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

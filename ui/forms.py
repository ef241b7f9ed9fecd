"""Draws a table of fields: a widget for each option, by its kind."""

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from itertools import cycle
from typing import Any

import streamlit as st

from spmd_core.experiment import Choice, Field, Integer, Number, Switch, Words
from ui import inputs, state
from ui.markdown import plain
from ui.state import Form

_MAX_CHARACTERS = 600


def draw_fields(screen: str, fields: Iterable[Field], now: Mapping[str, Any]) -> Form:
    """Draws the options of some fields: short ones in two columns, then the others.

    Args:
        screen: the screen whose draft holds them.
        fields: the rows of the table.
        now: the options of the draft.

    Returns:
        The value of each option, also at its default.
    """
    chosen: Form = {}
    columns = cycle(st.columns(2, gap="small"))
    for field in fields:
        for name, option in field.options.items():
            is_short = isinstance(option, Choice | Integer | Number)
            with next(columns) if is_short else nullcontext():
                chosen[name] = draw_option(screen, name, option, now.get(name, option.default))
    return chosen


def draw_option(screen: str, name: str, option: Field, now: Any) -> Any:
    """Draws the widget of one option; the value that it has."""
    label = option.label or name.replace("_", " ").capitalize()
    text = f"{option.help[0].upper()}{option.help[1:]}." if option.help else None
    if isinstance(option, Switch):
        return inputs.toggle_input(screen, name, label, bool(now), text)
    if isinstance(option, Choice):
        return inputs.choice_input(screen, name, label, option.choices, now, text, option.title)
    if isinstance(option, Integer) and not option.placeholder:
        text = text or f"A whole number from {option.low:,} to {option.high:,}."
        return inputs.number_input(screen, name, label, now, text=text)
    words = {"label": plain(label), "help": plain(text) if text else None}
    if isinstance(option, Integer):
        key = state.seed(state.key(screen, name), now or None)
        usual = plain(option.placeholder)
        size = st.number_input(value=None, step=128, placeholder=usual, key=key, **words)
        return size or 0
    if isinstance(option, Number):
        key = state.seed(state.key(screen, name), None if now == "" else float(now))
        usual = plain(option.text(option.value) or "as the model")
        number = st.number_input(
            value=None, step=0.25, format="%g", placeholder=usual, key=key, **words
        )
        return option.text(number)
    if isinstance(option, Words) and option.known:
        names = [word for word in now.split(option.separator) if word]
        key = state.seed(state.key(screen, name), names)
        offered = list(dict.fromkeys([*option.known, *names]))
        chosen = st.multiselect(options=offered, key=key, placeholder="nothing", **words)
        return option.separator.join(chosen)
    key = state.seed(state.key(screen, name), now)
    text = st.text_input(key=key, max_chars=_MAX_CHARACTERS, placeholder="none", **words)
    return " ".join((text or "").split())

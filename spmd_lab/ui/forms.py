"""Draws a table of fields: a widget for each option, by its kind."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from itertools import cycle
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.fields import Choice, Field, Integer, Number, Switch, Words
from spmd_core.plan import ModelSize
from spmd_lab.ui import state
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.state import Form

Keyed = Callable[[str, Any], str]  # the key of a widget, with its first value
_MAX_CHARACTERS = 600


def keyed(screen: str) -> Keyed:
    """Returns the keys of the widgets of a screen's draft."""
    return lambda name, now: state.seed(state.key(screen, name), now)


def fold(
    screen: str, label: str, key: str, icon: str | None = None, is_open: bool = False
) -> DeltaGenerator:
    """Returns a fold of fields. A refusal of the screen's fields opens it; the browser keeps what is
    opened by hand, also where the label changes.
    """
    return st.expander(label, is_open or bool(state.aside(screen, "reveal")), key=key, icon=icon)


def reveal(screen: str, sentence: str) -> None:
    """Opens the folds of fields at the first refusal, by another run of the screen; they stay open."""
    if sentence and not state.aside(screen, "reveal"):
        state.set_aside(screen, "reveal", True)
        st.rerun()


def draw_fields(
    keyed: Keyed, fields: Iterable[Field], now: Mapping[str, Any], size: ModelSize | None = None
) -> Form:
    """Draws the options of some fields: short ones in two columns, then the others.

    Args:
        keyed: the keys of the widgets.
        fields: the rows of the table.
        now: the options that are set.
        size: a model: a field that is not for it is left out, unless it is set.

    Returns:
        The value of each option that is drawn, also at its default.
    """
    chosen: Form = {}
    columns = cycle(st.columns(2, gap="small"))
    for field in fields:
        if size and field.unfit(size) and not is_set(field, now):
            continue
        for name, option in field.options.items():
            with next(columns) if _is_short(option) else nullcontext():
                chosen[name] = draw_option(keyed, name, option, now.get(name, option.default))
    return chosen


def _is_short(option: Field) -> bool:
    if isinstance(option, Choice):
        return max(map(len, map(option.title, option.choices))) < 10
    return isinstance(option, Number) or (isinstance(option, Integer) and not option.placeholder)


def is_set(field: Field, options: Mapping[str, Any]) -> bool:
    """Returns True if an option of the field is not at its default."""
    return any(
        options.get(name, each.default) != each.default for name, each in field.options.items()
    )


def draw_option(keyed: Keyed, name: str, option: Field, now: Any) -> Any:
    """Draws the widget of one option; the value that it has."""
    text = f"{option.help[0].upper()}{option.help[1:]}." if option.help else ""
    label = plain(option.label or name.replace("_", " ").capitalize())
    if isinstance(option, Integer) and not option.placeholder:
        text = text or f"A whole number from {option.low:,} to {option.high:,}."
    help_ = plain(text) or None
    if isinstance(option, Switch):
        return st.toggle(label, key=keyed(name, bool(now)), help=help_)
    if isinstance(option, Choice):
        offered = list(dict.fromkeys([*option.choices, now]))
        key = keyed(name, now)
        return st.selectbox(label, offered, key=key, format_func=option.title, help=help_)
    if isinstance(option, Integer):
        key = keyed(name, (now or None) if option.placeholder else now)
        usual, step = plain(option.placeholder) or None, 128 if option.high > 128 else 1
        number = st.number_input(
            label, None, None, None, step, key=key, help=help_, placeholder=usual
        )
        return option.default if number is None else number
    if isinstance(option, Number):
        key = keyed(name, None if now == "" else float(now))
        usual = plain(option.text(option.value) or "as the model")
        number = st.number_input(
            label, value=None, step=0.25, format="%g", placeholder=usual, key=key, help=help_
        )
        return option.text(number)
    if isinstance(option, Words) and option.known:
        names = [word for word in now.split(option.separator) if word]
        offered = list(dict.fromkeys([*option.known, *names]))
        key = keyed(name, names)
        chosen = st.multiselect(label, offered, key=key, help=help_, placeholder="nothing")
        return option.separator.join(chosen)
    text = st.text_input(label, key=keyed(name, now), max_chars=_MAX_CHARACTERS, help=help_)
    return " ".join((text or option.default).split())

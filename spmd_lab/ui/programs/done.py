"""What the author of a program says to have done in his code: in the session, and in its link."""

import re

import streamlit as st

from spmd_core.workloads import Program
from spmd_lab.ui import choices, state

_DONE = "donated."  # aside, before a program: arguments that its author donates by now


def donated(program: str | None) -> tuple[str, ...]:
    """Returns the arguments of a program that its author says to donate since it was exported."""
    return state.aside("programs", f"{_DONE}{program}") or ()


def mark(program: str | None, paths: tuple[str, ...]) -> None:
    """Keeps these arguments as donated in the author's code; () takes that back."""
    state.set_aside("programs", f"{_DONE}{program}", paths)


def follow_link(program: Program) -> None:
    """Takes what a link that was followed has as done, once; writes what is done to the address."""
    name = program.described.program
    is_linked = state.is_linked("programs", state.experiment("programs"))
    if is_linked and state.aside("programs", f"{_DONE}{name}") is None:
        mark(name, _named(st.query_params.get(choices.DONE, ""), program))
    text = ",".join(donated(name))
    if text and re.fullmatch(choices.NAMES, text):
        st.query_params[choices.DONE] = text
    else:
        st.query_params.pop(choices.DONE, None)


def _named(text: str, program: Program) -> tuple[str, ...]:
    """Returns the names of a link that are arguments of the program, or hold some."""
    if not re.fullmatch(choices.NAMES, text):
        return ()
    paths = [leaf.path for leaf in program.described.arguments]
    known = {*paths, *(path[: at.start()] for path in paths for at in re.finditer("/", path))}
    return tuple(dict.fromkeys(each for each in text.split(",") if each in known))

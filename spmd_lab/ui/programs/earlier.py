"""What a compile found before the program was changed, which only another compile can find repaired."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.results import StepFinding
from spmd_core.workloads import Program
from spmd_lab.ui import state
from spmd_lab.ui.markdown import code, plain

_FOUND = "found_compiled"  # aside: the program, and what its last compile found beside its file
Key = tuple[str, str]


def keep(program: Program, found: Sequence[StepFinding], of_file: Sequence[StepFinding]) -> None:
    """Keeps what a compile found beside the findings of the file."""
    known = {(each.kind, each.path) for each in of_file}
    more = tuple(each for each in found if (each.kind, each.path) not in known)
    state.set_aside("programs", _FOUND, (program.described.program, more))


def unchecked(program: Program, listed: Sequence[StepFinding]) -> list[StepFinding]:
    """Returns what the last compile found and nothing has checked since: not those that are listed,
    nor those whose fix the program has.
    """
    of, found = state.aside("programs", _FOUND) or ("", ())
    if of != program.described.program:
        return []
    known, given = {(each.kind, each.path) for each in listed}, {*program.specs}
    is_open = lambda each: not each.specs or not given.issuperset(each.specs)  # noqa: E731
    return [each for each in found if (each.kind, each.path) not in known and is_open(each)]


def count_words(number: int) -> str:
    """Returns how many findings a compile has to check again; "" where none is left."""
    return f", {number} to check again" if number else ""


def draw(left: Sequence[StepFinding], titles: dict[str, tuple[str, str]]) -> None:
    """Draws what is not known to be repaired, in gray."""
    for at, each in enumerate(left):
        with st.container(horizontal=True, vertical_alignment="center", key=f"finding-old-{at}"):
            title = f":gray[**{plain(titles[each.kind][0])}**]"
            st.markdown(f"{title}  \n:small[{code(each.path)}]", width="stretch")
            st.markdown("", width=170)
            with st.container(width=250):
                st.caption("Found before the change. Compile to check.")

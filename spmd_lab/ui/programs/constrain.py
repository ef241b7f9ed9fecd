"""The field that constrains the value of a line, and specs that a program gets in front of its own."""

from collections.abc import Mapping

import streamlit as st

from spmd_core.advice import in_front
from spmd_core.experiment import Experiment, read_spec_words
from spmd_core.workloads import VALUE, Program
from spmd_lab.ui import live, shell, state
from spmd_lab.ui.lab import find

RECOMPILE_S = 30.0  # of a compile, below which a press that changes a compiled program does another
OPENED = state.OPENED


def draw(program: Program) -> None:
    """Draws the fields that constrain a value where the program names its lines."""
    if not program.described.files:
        return
    name = program.described.files[0].rpartition("/")[2]
    with st.expander("Constrain a value"), st.form("constrain", border=False):
        line = st.text_input("Line", placeholder=f"{name}:88", help="The last array of that line.")
        spec = st.text_input(
            "Spec",
            placeholder="data,None",
            help="Axes, or None, for each dim; axes of one dim joined by +.",
        )
        if st.form_submit_button("Constrain", icon=":material/push_pin:") and line and spec:
            give({f"{VALUE}{line}": read_spec_words(spec)})


def changed(specs: Mapping[str, object]) -> Experiment:
    """Returns the screen's experiment with specs in front of its own."""
    experiment = state.experiment("programs")
    given = {
        name: [*map(list, each)] if isinstance(each, tuple) else each
        for name, each in specs.items()
    }
    return experiment.vary(specs=in_front(given, experiment.to_json()["specs"] or {}))


def give(specs: Mapping[str, object]) -> None:
    """Gives the screen's program these specs, in front of its own."""
    before, is_compiled = state.experiment("programs"), _compiles_soon()
    if shell.done(lambda: _replace(changed(specs))):
        _changed_from(before, is_compiled)


def put(after: Experiment) -> None:
    """Shows the screen a changed experiment of its program."""
    before, is_compiled = state.experiment("programs"), _compiles_soon()
    _replace(after)
    _changed_from(before, is_compiled)


def _changed_from(before: Experiment, is_compiled: bool) -> None:
    after = state.experiment("programs")
    note(before, after)
    state.note_act("programs")
    if is_compiled:
        live.ask("programs", after)
    st.rerun()


def _compiles_soon() -> bool:
    """Returns True if the screen's program was compiled, in little time: the findings of a compile are
    listed again then without a press.
    """
    experiment, status = state.experiment("programs"), find(state.run("programs") or "")
    if status is None or status.state != "succeeded":
        return False
    if not status.experiment.is_alike(experiment):
        return False
    took_s = status.elapsed_s
    return experiment.place.is_absent and took_s is not None and took_s < RECOMPILE_S


def note(before: Experiment, after: Experiment) -> None:
    """Keeps a change of the screen's program for `undo`: who makes one has opened the program. The
    sizes of a mesh are one change, since most are of as many devices only together.
    """
    state.note_change("programs", before, after, goes_on=_is_resized)
    state.set_aside("programs", OPENED, after.id)


def _is_resized(before: Experiment, after: Experiment) -> bool:
    return before != after and before.vary(mesh=dict(after.mesh)) == after


def _replace(experiment: Experiment) -> None:
    state.replace("programs", experiment)
    state.set_run("programs", None)

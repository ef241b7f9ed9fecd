"""Changes of a program by other specs: those that mend what is wrong, and of the value of a line."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import streamlit as st

from spmd_core.base import bytes_text
from spmd_core.experiment import Experiment, read_spec_words
from spmd_core.fields import Spec
from spmd_core.script import spec_text
from spmd_core.workloads import Program, findings, grouped
from spmd_lab.ui import shell, state
from spmd_lab.ui.markdown import plain

T = TypeVar("T")
_BY_SPECS = ("replicated", "rule")  # the kinds of findings that specs mend


def offer(program: Program) -> None:
    """Draws a button that tries the specs which mend the largest finding that specs mend: of an odd
    array those of its layers, of a replicated one its largest dim over the axes that divide it.
    Draws none where a device would then hold as much.
    """
    held = {each.leaf.path: each for each in program.arguments()}
    for first, *_ in grouped(findings(program), program):
        if first.kind not in _BY_SPECS:
            continue
        specs = {
            program.described.patterns[path]: first.meant
            or _over_largest(held[path].shape, program)
            for path in (first.path, *(first.others if first.kind == "replicated" else ()))
        }
        tried = replace(program, specs=tuple(_before(specs, dict(program.specs)).items()))
        now, then = (
            sum(each.bytes_per_device or 0 for each in of.arguments()) for of in (program, tried)
        )
        if then < now:
            break
    else:
        return
    group, spec = next(iter(specs.items()))
    sizes = f"{bytes_text(now)} → {bytes_text(then)}"
    # bytes of arguments alone: what the step then sends and holds is the answer to what if
    label = f"Try {group} {spec_text(spec)}: arguments {sizes} per device"
    if st.button(plain(label), icon=":material/build:", key="mend"):
        _give(
            state.experiment("programs"),
            {name: [*map(list, each)] for name, each in specs.items()},
        )


def _over_largest(shape: tuple[int, ...], program: Program) -> Spec:
    for largest in sorted(range(len(shape)), key=lambda at: -shape[at]):
        axes, left = [], shape[largest]
        for name, size in program.mesh:
            if size > 1 and left % size == 0:
                axes, left = [*axes, name], left // size
        if axes:
            return tuple(tuple(axes) if at == largest else () for at in range(len(shape)))
    return ((),) * len(shape)


def draw(experiment: Experiment, program: Program) -> None:
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
            _give(experiment, {f"@{line}": read_spec_words(spec)})


def _before(specs: Mapping[str, T], old: Mapping[str, T]) -> dict[str, T]:
    """Returns old specs with others in front: the first that matches an array counts."""
    return dict(specs) | {name: spec for name, spec in old.items() if name not in specs}


def _give(experiment: Experiment, specs: Mapping[str, object]) -> None:
    changed = _before(specs, experiment.to_json()["specs"] or {})
    if shell.done(lambda: state.replace("programs", experiment.vary(specs=changed))):
        st.rerun()

"""Changes of a program by other specs: those that mend what is wrong, and of the value of a line."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from operator import mul

import streamlit as st

from spmd_core.base import bytes_text
from spmd_core.experiment import Experiment, read_spec_words
from spmd_core.fields import Spec
from spmd_core.script import spec_text
from spmd_core.workloads import Program, findings, grouped
from spmd_lab.ui import shell, state
from spmd_lab.ui.markdown import plain

_BY_SPECS = ("replicated", "rule")  # the kinds of findings that specs mend


def offer(program: Program) -> None:
    """Draws a button that gives the specs which mend the largest finding that specs mend: of an odd
    array those of its layers, of a replicated one its largest dim over the axes that divide it.
    """
    every = (each[0] for each in grouped(findings(program), program) if each[0].kind in _BY_SPECS)
    if (first := next(every, None)) is None:
        return
    held = {each.leaf.path: each for each in program.arguments()}
    with_it = first.others if first.kind == "replicated" else ()
    specs = {
        program.described.patterns[path]: first.meant or _over_largest(held[path].shape, program)
        for path in (first.path, *with_it)
    }
    tried = replace(program, specs=(*specs.items(), *program.specs))
    now, then = (
        bytes_text(sum(each.bytes_per_device or 0 for each in of.arguments()))
        for of in (program, tried)
    )
    group, spec = next(iter(specs.items()))
    label = f"Give {group} {spec_text(spec)}: {now} → {then} per device"
    if st.button(plain(label), type="primary", icon=":material/build:", key="mend"):
        _give(
            state.experiment("programs"),
            {name: [*map(list, each)] for name, each in specs.items()},
        )


def _over_largest(shape: tuple[int, ...], program: Program) -> Spec:
    largest, parts = max(shape), accumulate((size for _, size in program.mesh), mul)
    axes = tuple(
        name for (name, _), of in zip(program.mesh, parts, strict=True) if not largest % of
    )
    return tuple(axes if at == shape.index(largest) else () for at in range(len(shape)))


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


def _give(experiment: Experiment, specs: Mapping[str, object]) -> None:
    changed = dict(experiment.to_json()["specs"] or {}) | dict(specs)
    if shell.done(lambda: state.replace("programs", experiment.vary(specs=changed))):
        st.rerun()

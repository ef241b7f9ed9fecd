"""Changes of a program by other specs: those that mend what is wrong, and of the value of a line."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import TypeVar

import streamlit as st

from spmd_core.answers import WhatIf
from spmd_core.base import LabError
from spmd_core.experiment import Experiment, read_spec_words, spec_code
from spmd_core.fields import Spec
from spmd_core.workloads import Program, device_bytes, findings, grouped
from spmd_lab.ui import live, shell, state
from spmd_lab.ui.lab import as_viewer, lab
from spmd_lab.ui.markdown import plain

T = TypeVar("T")
Specs = Mapping[str, Spec]
_BY_SPECS = ("replicated", "rule")  # the kinds of findings that specs mend
OPENED = "opened"  # aside: the id of the experiment of a program that the user opened here
_LAST_DIM = (
    "Of dims that as many devices divide, the last is sharded: a lookup along the first then needs "
    "no other device."
)


def fixes(program: Program) -> dict[str, Specs]:
    """Returns by path of a finding the specs that mend it: of an odd array those of its layers, of a
    replicated one the dim that the most devices divide. None of a pattern that matches no
    argument, nor one by which a device holds as much as before.
    """
    of = {each.leaf.path: each for each in program.arguments()}
    listed = {
        first.path: {
            program.described.patterns[path]: each.meant or _over_most(of[path].shape, program)
            for each in (first, *alike)
            for path in (each.path, *(each.others if each.kind == "replicated" else ()))
        }
        for first, *alike in grouped(findings(program), program)
        if first.kind in _BY_SPECS and first.path in program.described.patterns
    }
    return {
        path: each
        for path, each in listed.items()
        if held_bytes(program, each) < held_bytes(program, {})
    }


def held_bytes(program: Program, specs: Specs, twice: Collection[str] = ()) -> int:
    """Returns the bytes of arguments in a device's memory with these specs in front of others, those
    of the paths `twice` counted twice.
    """
    tried = replace(program, specs=tuple(_before(specs, dict(program.specs)).items()))
    arguments = tried.arguments()
    again = [each for each in arguments if each.leaf.path in twice]
    return device_bytes([*arguments, *again])[0]


def by_held(program: Program, listed: Iterable[Specs]) -> list[Specs]:
    """Returns specs by what a device holds with them, the least first."""
    return sorted(listed, key=lambda specs: held_bytes(program, specs))


def copied_bytes(program: Program, specs: Specs) -> int:
    """Returns the bytes on a device of those arguments with specs that are not donated: the results
    in their place.
    """
    twice, patterns = held_twice(program), program.described.patterns
    copied = [e for e in program.arguments() if patterns.get(e.leaf.path) in specs]
    return device_bytes([each for each in copied if each.leaf.path in twice])[0]


def held_twice(program: Program, donated: Collection[str] = ()) -> frozenset[str]:
    """Returns the paths of state that is held twice, since its argument is not donated."""
    return frozenset(
        path
        for each in findings(program)
        if each.kind == "missing_donation" and each.path not in donated
        for path in each.others
    )


def checked(specs: Specs) -> WhatIf | None:
    """Returns what the compiler makes of specs, which it partitions in the background; None until it
    has answered, and where it refuses.
    """
    if not is_opened():
        return None
    before, after = state.experiment("programs"), _changed(specs)
    try:
        if as_viewer(lab().is_partitioned, before, after):
            return as_viewer(lab().what_if, before, after)
    except LabError:
        state.set_aside("programs", OPENED, None)
    return None


def is_opened() -> bool:
    """Returns True if the user opened the program here: of a link that is followed nothing is
    partitioned unasked.
    """
    return state.aside("programs", OPENED) == state.experiment("programs").id


@st.fragment(run_every=live.INTERVAL_S)
def _follow(specs: Specs) -> None:
    st.caption("Partitioning with this fix…")
    if as_viewer(lab().is_partitioned, state.experiment("programs"), _changed(specs)):
        st.rerun()


def offer(
    program: Program,
    listed: Sequence[Specs],
    known: WhatIf | None,
    is_partitioning: bool,
) -> None:
    """Draws a button that gives the program those specs by which a device holds least, unless they
    raise its peak of memory or its time, as the compiler partitions it. `known`: what it made of them.
    """
    if not (tried := by_held(program, listed)):
        return
    first, *others = tried[0]
    too = f" and {others[0] if len(others) == 1 else f'{len(others)} more'}" if others else ""
    pressed = st.button(
        f"{words(tried[0])} for {plain(f'{first}{too}')}",
        type="primary",
        icon=":material/build:",
        key="mend",
        help=_LAST_DIM,
    )
    if known:
        if raises(known):
            st.caption("Peak memory or step time rises: the next fix is tried.")
    elif is_partitioning:
        _follow(tried[0])
    else:
        st.caption("Partitioned first: it is not used if peak memory or step time rises.")
    if pressed:
        with st.spinner("Partitioning it before and after…"):
            kept = next((specs for specs in tried if not _raises(specs)), None)
        if kept is None:
            st.info(
                "Each fix raises the peak of memory or the time: the specs stay. *Use* applies one all the same."
            )
        else:
            give(kept)


def words(specs: Specs) -> str:
    """Returns the label of a button that gives specs: that of their first argument."""
    return plain(f"Use {spec_code(next(iter(specs.values())))}")


def _raises(specs: Specs) -> bool:
    with suppress(LabError):  # what is not partitioned is not known to be worse
        return raises(as_viewer(lab().what_if, state.experiment("programs"), _changed(specs)))
    return False


def raises(answer: WhatIf) -> bool:
    """Returns True if a change takes more time or a higher peak of memory."""
    was, now = answer.programs
    first, then = was.predicted_s, now.predicted_s
    is_slower = first is not None and then is not None and then.estimate > first.estimate
    return is_slower or (now.peak_bytes or 0) > (was.peak_bytes or now.peak_bytes or 0)


def _over_most(shape: tuple[int, ...], program: Program) -> Spec:
    """Returns the spec of the dim that the most devices divide, of equals the last: a table's lookup
    along its first dim then communicates nothing. A shard narrower than a TPU's 128 lanes is not
    padded for it: the compiler stores one of 32000 by 64 transposed, f32[32000,64]{0,1:T(8,128)}.
    """
    specs: list[Spec] = [((),) * len(shape)]
    for at, left in enumerate(shape):
        axes = []
        for name, size in program.mesh:
            if size > 1 and left % size == 0:
                axes, left = [*axes, name], left // size
        specs.append(tuple(tuple(axes) if dim == at else () for dim in range(len(shape))))
    sizes = dict(program.mesh)
    return max(
        reversed(specs), key=lambda spec: prod(sizes[axis] for axes in spec for axis in axes)
    )


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
            give({f"@{line}": read_spec_words(spec)})


def _before(specs: Mapping[str, T], old: Mapping[str, T]) -> dict[str, T]:
    """Returns old specs with others in front: the first that matches an array counts."""
    return dict(specs) | {name: spec for name, spec in old.items() if name not in specs}


def _changed(specs: Mapping[str, object]) -> Experiment:
    experiment = state.experiment("programs")
    given = {
        name: [*map(list, each)] if isinstance(each, tuple) else each
        for name, each in specs.items()
    }
    return experiment.vary(specs=_before(given, experiment.to_json()["specs"] or {}))


def give(specs: Mapping[str, object]) -> None:
    """Gives the screen's program these specs, in front of its own."""
    if shell.done(lambda: state.replace("programs", _changed(specs))):
        st.rerun()

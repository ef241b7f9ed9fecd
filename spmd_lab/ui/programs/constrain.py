"""Changes of a program by other specs: those that mend what is wrong, and of the value of a line."""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from math import prod
from typing import TypeVar

import streamlit as st

from spmd_core.answers import WhatIf
from spmd_core.base import LabError, capital
from spmd_core.experiment import Experiment, read_spec_words, spec_code
from spmd_core.fields import Spec
from spmd_core.workloads import Program, device_bytes, findings, grouped
from spmd_lab.ui import live, shell, state
from spmd_lab.ui.lab import as_viewer, lab
from spmd_lab.ui.markdown import plain

T = TypeVar("T")
Specs = Mapping[str, Spec]
_BY_SPECS = ("replicated", "rule")  # the kinds of findings that specs mend
_BEFORE, _REFUSED = "before_fixes", "refused_fix"  # aside
_PROMISE = "Partitioned first: it is not used if peak memory or step time rises."
_UNDO = "Back to the specs before the last fix."
OPENED = "opened"  # aside: the id of the experiment of a program that the user opened here
_LAST_DIM = (
    "Of dims that as many devices divide, the last is sharded: a lookup along the first then needs "
    "no other device."
)


def fixes(program: Program) -> dict[str, Specs]:
    """Returns by path of a finding the specs that mend it: of an odd array those of its layers, of a
    replicated one these too, else the dim that the most devices divide. None of a pattern that
    matches no argument, nor of an array that no axis divides.
    """
    of = {each.leaf.path: each for each in program.arguments()}
    return {
        first.path: specs
        for first, *alike in grouped(findings(program), program)
        if first.kind in _BY_SPECS and first.path in program.described.patterns
        for specs in [
            {
                program.described.patterns[path]: each.meant or _over_most(of[path].shape, program)
                for each in (first, *alike)
                for path in (each.path, *(each.others if each.kind == "replicated" else ()))
            }
        ]
        if first.meant or held_bytes(program, specs) < held_bytes(program, {})
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


def chosen(program: Program, listed: Iterable[Specs]) -> tuple[Specs | None, WhatIf | None]:
    """Returns the specs to offer and what the compiler made of them, if it has answered: of those not
    known to raise peak memory or step time, the ones by which a device holds the least.
    """
    tried = _refused()
    for specs in by_held(program, listed):
        known = tried[1] if tried and tried[0] == specs else checked(specs)
        if known is None or not raises(known):
            return specs, known
    return None, None


def offer(specs: Specs | None, known: WhatIf | None, has_fixes: bool) -> None:
    """Draws a button that gives the program the chosen specs, and one for its state before the last
    fix; the fix that was tried in vain.
    """
    if specs is not None:
        pressed = st.button(
            f"Use {label(specs)}",
            type="primary",
            icon=":material/build:",
            key="mend",
            help=_LAST_DIM,
        )
        if known is None and is_opened():
            _follow(specs)
        elif known is None:
            st.caption(_PROMISE)
        if pressed:
            use(specs)
    elif has_fixes:
        st.caption("Each fix raises peak memory or step time.")
    if _undone():
        st.button("Undo", icon=":material/undo:", key="fix:undo", on_click=_undo, help=_UNDO)


def refused() -> None:
    """Draws what the fix that was pressed last raises, and a button that gives it all the same."""
    if tried := _refused():
        specs, answer = tried
        with st.container(horizontal=True, vertical_alignment="center", key="refused-fix"):
            changes = "; ".join(
                f"{each.title.lower()} {each.value}" for each in answer.figures[:-1]
            )
            st.info(f"Not used: {label(specs)}. {plain(capital(changes))}.", width="stretch")
            if st.button("Use it all the same", key="fix:anyway"):
                give(specs)


def _refused() -> tuple[Specs, WhatIf] | None:
    tried = state.aside("programs", _REFUSED)
    return tried if tried and tried[1].before == state.experiment("programs") else None


def use(specs: Specs) -> None:
    """Gives the program specs that raise neither its peak of memory nor its time, as the compiler
    partitions it; else keeps what they raise.
    """
    with st.spinner("Partitioning it before and after…"):
        answer = None
        with suppress(LabError):  # what is not partitioned is not known to be worse
            answer = as_viewer(lab().what_if, state.experiment("programs"), _changed(specs))
    if answer is None or not raises(answer):
        give(specs)
    else:
        state.set_aside("programs", _REFUSED, (specs, answer))
        st.rerun()


def label(specs: Specs) -> str:
    """Returns specs with the arguments that get them."""
    first, *others = specs
    too = f" and {others[0] if len(others) == 1 else f'{len(others)} more'}" if others else ""
    return f"{words(specs)} for {plain(f'{first}{too}')}"


def words(specs: Specs) -> str:
    """Returns the spec of the first argument."""
    return plain(spec_code(next(iter(specs.values()))))


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
    before, kept = state.experiment("programs"), state.aside("programs", _BEFORE) or ()
    if shell.done(lambda: _replace(_changed(specs))):
        after = state.experiment("programs").id
        state.set_aside("programs", _BEFORE, (*kept, (before, after)))
        st.rerun()


def _undone() -> Experiment | None:
    """Returns the program before the last fix; None of one that no fix made."""
    kept = state.aside("programs", _BEFORE) or ()
    before, after = kept[-1] if kept else (None, "")
    return before if state.experiment("programs").id == after else None


def _undo() -> None:
    if (before := _undone()) is not None:
        state.set_aside("programs", _BEFORE, state.aside("programs", _BEFORE)[:-1])
        _replace(before)


def _replace(experiment: Experiment) -> None:
    state.replace("programs", experiment)
    state.set_run("programs", None)

"""Changes of a program by other specs: those that mend what is wrong, and of the value of a line."""

import time
from collections.abc import Iterable, Mapping
from functools import partial

import streamlit as st

from spmd_core.advice import Specs, in_front
from spmd_core.answers import WhatIf
from spmd_core.base import LabError, capital
from spmd_core.experiment import Experiment, read_spec_words, spec_code
from spmd_core.results import StepFinding
from spmd_core.workloads import VALUE, Program
from spmd_lab.ui import live, shell, state
from spmd_lab.ui.lab import as_viewer, lab
from spmd_lab.ui.markdown import plain

_REFUSED = "refused_fix"  # aside: specs that were pressed and not used, with the compiler's answer
_WAITS = "waiting_fix"  # aside: specs that were pressed, for which experiment, and when
_UNCHECKED = "unchecked_fix"  # aside: the id of the experiment with specs not compared, and why
_PROMISE = "Partitioned first: it is not used if peak memory or step time rises."
_UNDO = "Back to the specs before the last fix."
OPENED = "opened"  # aside: the id of the experiment of a program that the user opened here


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


def judged(listed: Iterable[StepFinding]) -> tuple[dict[StepFinding, WhatIf], WhatIf | None]:
    """Returns the findings whose specs are known to raise peak memory or step time, with what the
    compiler made of them, and what it made of those of the first other finding, if it has answered.
    """
    tried = _tried()
    vain: dict[StepFinding, WhatIf] = {}
    first: list[WhatIf | None] = []
    for each in listed:
        specs = dict(each.specs)
        answer = next((of for name, of in tried if name == specs), None) if specs else None
        if specs and not answer and not first:
            answer = checked(specs)
        if answer and raises(answer):
            vain[each] = answer
        else:
            first.append(answer)
    return vain, next(iter(first), None)


def offer(specs: Specs | None, known: WhatIf | None, is_vain: bool) -> None:
    """Draws a button that gives the program the specs of its first finding, and one for its state
    before the last fix; in its place how long the pressed fix is partitioned. `is_vain`: every
    finding's fix was tried in vain.
    """
    if waited := waits():
        _wait(*waited)
    elif specs is not None:
        pressed = st.button(
            f"Use {label(specs)}",
            type="primary",
            icon=":material/build:",
            key="mend",
            help=_PROMISE,
        )
        if known is None and is_opened():
            _follow(specs)
        elif known is None:
            st.caption(_PROMISE)
        if pressed:
            use(specs)
    elif is_vain:
        st.caption("Each fix that was compared raises peak memory or step time.")
    if state.before_change("programs"):
        undo, of = partial(state.undo, "programs"), _UNDO
        st.button("Undo", icon=":material/undo:", key="fix:undo", on_click=undo, help=of)
    of_id, why = state.aside("programs", _UNCHECKED) or ("", "")
    if of_id == state.experiment("programs").id:
        st.caption(f":orange[**Not checked**]: {plain(why)}.", width="stretch")


def waits() -> tuple[Specs, float] | None:
    """Returns the pressed specs that are being partitioned, and since when."""
    specs, of, since = state.aside("programs", _WAITS) or ({}, None, 0.0)
    return (specs, since) if of == state.experiment("programs") else None


@st.fragment(run_every=live.INTERVAL_S)
def _wait(specs: Specs, since: float) -> None:
    _settle(specs)
    took_s = time.monotonic() - since
    with st.container(horizontal=True, vertical_alignment="center", key="fix-waits"):
        words = f"Partitioning {label(specs)}: {took_s:.0f} s"
        st.progress(min(took_s / lab().PARTITION_S, 1.0), text=words)
        cancel = partial(state.set_aside, "programs", _WAITS, None)
        if st.button("Cancel", icon=":material/stop_circle:", key="fix:cancel", on_click=cancel):
            st.rerun()
        if st.button("Use it unchecked", key="fix:unchecked", help="Without waiting."):
            _give_unchecked(specs, "it was used before it was partitioned")


def _settle(specs: Specs) -> None:
    """Gives the program specs once they are partitioned and raise neither its peak of memory nor its
    time, else keeps what they raise; draws the screen again then.
    """
    before, after = state.experiment("programs"), _changed(specs)
    try:
        if not as_viewer(lab().is_partitioned, before, after):
            return
        answer = as_viewer(lab().what_if, before, after)
    except LabError as error:  # what is not partitioned is not known to be worse
        _give_unchecked(specs, str(error))
        return
    state.set_aside("programs", _WAITS, None)
    if not raises(answer):
        give(specs)
    else:
        others = [each for each in _tried() if each[0] != specs]
        state.set_aside("programs", _REFUSED, (*others, (specs, answer)))
        st.rerun()


def _give_unchecked(specs: Specs, why: str) -> None:
    state.set_aside("programs", _WAITS, None)
    state.set_aside("programs", _UNCHECKED, (_changed(specs).id, why))
    give(specs)


def refused() -> None:
    """Draws what the fix that was pressed last raises, and a button that gives it all the same."""
    if tried := _tried():
        specs, answer = tried[-1]
        with st.container(horizontal=True, vertical_alignment="center", key="refused-fix"):
            changes = plain(capital(raised_words(answer)))
            st.info(f"Not used: {label(specs)}. {changes}.", width="stretch")
            if st.button("Use it all the same", key="fix:anyway"):
                give(specs)


def raised_words(answer: WhatIf) -> str:
    """Returns peak memory and step time before and after specs."""
    return "; ".join(f"{each.title.lower()} {each.value}" for each in answer.figures[:-1])


def _tried() -> list[tuple[Specs, WhatIf]]:
    """Returns specs that were pressed and not used, the last one last."""
    now = state.experiment("programs")
    return [each for each in state.aside("programs", _REFUSED) or () if each[1].before == now]


def use(specs: Specs) -> None:
    """Has specs partitioned, which the program gets once they are known to raise neither its peak of
    memory nor its time.
    """
    state.set_aside("programs", _WAITS, (specs, state.experiment("programs"), time.monotonic()))
    _settle(specs)
    st.rerun()


def label(specs: Specs) -> str:
    """Returns specs with the arguments that get them."""
    first, *others = (name.removeprefix(VALUE) for name in specs)
    too = f" and {others[0] if len(others) == 1 else f'{len(others)} more'}" if others else ""
    at = "at" if next(iter(specs)).startswith(VALUE) else "for"
    return f"{words(specs)} {at} {plain(f'{first}{too}')}"


def words(specs: Specs) -> str:
    """Returns the spec of the first argument."""
    return plain(spec_code(next(iter(specs.values()))))


def raises(answer: WhatIf) -> bool:
    """Returns True if a change takes more time or a higher peak of memory."""
    was, now = answer.programs
    first, then = was.predicted_s, now.predicted_s
    is_slower = first is not None and then is not None and then.estimate > first.estimate
    return is_slower or (now.peak_bytes or 0) > (was.peak_bytes or now.peak_bytes or 0)


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


def _changed(specs: Mapping[str, object]) -> Experiment:
    experiment = state.experiment("programs")
    given = {
        name: [*map(list, each)] if isinstance(each, tuple) else each
        for name, each in specs.items()
    }
    return experiment.vary(specs=in_front(given, experiment.to_json()["specs"] or {}))


def give(specs: Mapping[str, object]) -> None:
    """Gives the screen's program these specs, in front of its own."""
    before = state.experiment("programs")
    if shell.done(lambda: _replace(_changed(specs))):
        state.note_change("programs", before, state.experiment("programs"))
        st.rerun()


def _replace(experiment: Experiment) -> None:
    state.replace("programs", experiment)
    state.set_run("programs", None)

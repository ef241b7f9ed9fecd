"""The effect of changed fields on what a program requests, before it is compiled."""

from collections.abc import Collection
from contextlib import suppress

import streamlit as st

from spmd_core.answers import WHAT_IF, WhatIf, small
from spmd_core.base import LabError, mesh_text, numbered
from spmd_core.experiment import Experiment
from spmd_core.sheets import Sheet, text
from spmd_core.workloads import STRATEGIES
from spmd_lab.ui import live, shell, state
from spmd_lab.ui.lab import as_viewer, find, lab
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import draw_figures, draw_first

RESHARDED: Sheet[tuple[str, str, str, int]] = Sheet(
    (
        text("Line", lambda each: each[0] or "–"),
        text("Before", lambda each: each[1]),
        text("After", lambda each: each[2]),
        text("Values", lambda each: str(each[3])),
    )
)

_SEEN = "seen"  # aside: the experiment before the last change, and the one after it
_SAME = ("workload", "target", "dims", "options", "dtype", "memory")


def begin(screen: str, before: Experiment, after: Experiment) -> None:
    """Has both programs propagated and partitioned while the rest of a page is drawn; before the
    first change only propagated, so that its process is there.
    """
    now = (state.aside(screen, _SEEN) or (None, None))[1]
    if now != after:
        state.set_aside(screen, _SEEN, (now, after))
    with suppress(LabError):  # `draw` reports it
        as_viewer(lab().is_partitioned, before, after)


def draw(screen: str, before: Experiment, after: Experiment) -> None:
    """Draws at once the values that propagation shards otherwise, then the collectives that appear
    and vanish, as the compiler leaves them; and a button that compiles the program to its end.
    """
    with st.container(border=True, key="what_if"):
        try:
            with st.spinner("Propagating…"):
                answer = as_viewer(lab().what_if_now, before, after)
        except LabError as error:
            shell.refusal(str(error))
            return
        _answer(answer, screen, _since_last(screen, before, after))
        if answer.is_propagated:
            _follow(before, after)


def so_far(
    screen: str, before: Experiment, after: Experiment, made: str, shown: Collection[str] = ()
) -> None:
    """Draws, folded under its figures, what all changes of a program do to what it requests. `made`:
    what these are; `shown`: titles of the figures that the card above has.
    """
    try:
        with st.spinner("Propagating…"):
            answer = as_viewer(lab().what_if_now, before, after)
    except LabError as error:
        shell.refusal(str(error))
        return
    moved = answer.moved(shown)
    label = f"**Since it was opened:** {made}{f': {plain(moved)}' if moved else ''}"
    with st.expander(label, icon=":material/difference:", key="what_if"):
        st.markdown(plain(answer.headline))
        if last := _since_last(screen, before, after):
            st.markdown(f"**Last change:** {plain(last)}")
        st.caption(plain(". ".join(filter(None, (answer.made, answer.agreement)))))
        _changes(answer)
    if answer.is_propagated:
        _follow(before, after)


def place_change(before: Experiment, after: Experiment) -> str:
    """Returns how the target and the mesh of a program were changed; "" where they were not."""
    was, now = before.exported, after.exported
    if not was or not now:
        return ""
    target = f"target {before.target} → {after.target}" * (before.target != after.target)
    mesh = f"mesh {mesh_text(was.mesh, ' ')} → {mesh_text(now.mesh, ' ')}"
    return ", ".join(filter(None, (target, mesh * bool(was.mesh and was.mesh != now.mesh))))


def changed_words(before: Experiment, after: Experiment) -> str:
    """Returns how the target and mesh of a program were changed, and how many specs."""
    was, now = before.exported, after.exported
    if not was or not now:
        return ""
    place = place_change(before, after)
    number = len({name for name, _ in {*was.specs} ^ {*now.specs}})
    changed = f"{numbered(number, 'spec')} changed" if number or not place else ""
    return ", ".join(filter(None, (place, changed)))


def _since_last(screen: str, before: Experiment, after: Experiment) -> str:
    """Returns what the last of several changes does, once both are partitioned."""
    last, now = state.aside(screen, _SEEN) or (None, None)
    if last is None or now != after or last == before or not _is_same(last, after):
        return ""
    with suppress(LabError):
        if as_viewer(lab().is_partitioned, last, after):
            figures = as_viewer(lab().what_if, last, after).figures
            return "; ".join(f"{small(each.title)} {each.value}" for each in figures)
    return ""


def _is_same(one: Experiment, other: Experiment) -> bool:
    """Returns True if two experiments are of one program on one target."""
    was, now = one.to_json(), other.to_json()
    return all(was.get(name) == now.get(name) for name in _SAME)


def edited(screen: str, experiment: Experiment) -> None:
    """Draws it against the run that a screen showed before its mesh or specs were edited."""
    status = find(state.last_run(screen) or "")
    before, after = (
        each and _partitioned(each) for each in (status and status.experiment, experiment)
    )
    if before and after and before != after and _is_same(before, after):  # pyrefly: ignore
        draw(screen, before, after)  # pyrefly: ignore[bad-argument-type]


def _partitioned(experiment: Experiment) -> Experiment | None:
    """The experiment with its first strategy that the compiler partitions; None where there is none."""
    wrote = [name for name in experiment.strategies if STRATEGIES[name].collectives == "compiler"]
    is_one = wrote and not experiment.variants and not experiment.plan
    return experiment.vary(strategies=wrote[:1]) if is_one else None


@st.fragment(run_every=live.INTERVAL_S)
def _follow(before: Experiment, after: Experiment) -> None:
    st.caption("The compiler partitions it: its collectives follow.")
    if as_viewer(lab().is_partitioned, before, after):
        st.rerun()


def _answer(answer: WhatIf, screen: str, last: str) -> None:
    st.markdown(f"**What if?** {plain(answer.headline)}")
    draw_figures(answer.figures)
    if last:
        st.markdown(f"**Last change:** {plain(last)}")
    with st.container(horizontal=True, vertical_alignment="center"):
        run = find(state.run(screen) or "")
        is_asked = run is not None and run.state != "failed"
        made = f"Compared as {answer.made.lower()}" if is_asked else answer.made
        st.badge(plain(made), icon=":material/bolt:", color="orange")
        if answer.agreement:
            st.caption(plain(answer.agreement), width="stretch")
            if not is_asked and st.button(
                "Compile it", icon=":material/play_arrow:", key="what_if:compile"
            ):
                live.ask(screen, state.experiment(screen))
    _changes(answer)


def _changes(answer: WhatIf) -> None:
    """Draws the table of what changes, the first rows in sight."""
    waits = answer.is_propagated
    table = (
        RESHARDED.table(answer.resharded, "screen")
        if waits
        else WHAT_IF.table(answer.changed, "screen")
    )
    draw_first(table, "what_if:more")
    if stays := len(answer.rows) - len(answer.changed):
        st.caption(f"{numbered(stays, 'other')} {'stay' if stays > 1 else 'stays'}.")

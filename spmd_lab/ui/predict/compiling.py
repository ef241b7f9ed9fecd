"""Several predictions compiled as runs of their own: what that costs, how far it is, a way to end
it.

What is done stays, whatever ends the others.
"""

from collections.abc import Callable, Sequence
from functools import partial

import streamlit as st

from spmd_core.base import numbered
from spmd_core.sweeps import (
    Asked,
    Outcome,
    SweepPoint,
    cancel,
    compile_seconds,
    look,
    missing_compilers,
    seconds_taken,
    start,
    to_compile,
)
from spmd_core.words import paused_words
from spmd_lab.ui import state
from spmd_lab.ui.lab import as_viewer, batch, lab
from spmd_lab.ui.markdown import as_sentence, coded, plain

INTERVAL_S = 1.0
Titled = Callable[[SweepPoint], str]  # a point in words


def _asked() -> Asked:
    return st.session_state[state.seed("predict:sweep:asked", Asked())]


def outcomes_of(points: Sequence[SweepPoint]) -> tuple[Outcome, ...]:
    """The state of each point."""
    return look(lab(), points, _asked())


def begin(missing: Sequence[SweepPoint]) -> None:
    """Queue these for whoever looks, and draw the screen again."""
    start(batch(), missing, _asked())
    st.rerun()


def controls(
    points: Sequence[SweepPoint],
    outcomes: Sequence[Outcome],
    titled: Titled,
    called: str = "point",
    is_next: bool = True,
) -> None:
    """How many compiles are missing and how long they take, before the button; while they run, how
    far they are. `called`: what a row is; `is_next`: whether the button is what one presses next.
    """
    missing = to_compile(points, outcomes)
    for refusal in missing_compilers(points, outcomes):
        st.caption(coded(f"{as_sentence(refusal)} Estimates need no compiler."))
    if any(outcome.state in ("waiting", "running") for outcome in outcomes):
        _watch(points, tuple(outcome.state for outcome in outcomes), titled)
    if not missing:
        return
    failed = sum(outcome.state == "failed" for outcome in outcomes)
    took = seconds_taken(lab(), outcomes)
    seconds = sum(compile_seconds(point, took) for point in missing)
    with st.container(horizontal=True, vertical_alignment="center"):
        label = f"Compile {numbered(len(missing), called)}"
        kind = "primary" if is_next else "secondary"
        if st.button(label, type=kind, icon=":material/play_arrow:", key="sweep:start"):
            begin(missing)
        again = f", {failed} of them again after a failure" if failed else ""
        known = sum(outcome.state in ("predicted", "does not fit") for outcome in outcomes)
        verb = "is" if known == 1 else "are"
        of = f"; {known} of {numbered(len(points), called)} {verb} compiled" if known else ""
        if large := sum(outcome.state == "too large" for outcome in outcomes):
            of += f"{',' if known else ';'} {large} left out as too large"
        st.caption(plain(f"{roughly(seconds)}{again}{of}."), width="content")


def roughly(seconds: float) -> str:
    """How long compiles take, in words."""
    return f"About {f'{seconds:.0f} s' if seconds < 90 else f'{seconds / 60:.0f} min'}"


@st.fragment(run_every=INTERVAL_S)
def _watch(points: Sequence[SweepPoint], seen: tuple[str, ...], titled: Titled) -> None:
    """How far the compiles are, and a way to cancel them; the screen is drawn again when a point is
    over.
    """
    outcomes = outcomes_of(points)
    states = tuple(outcome.state for outcome in outcomes)
    if states != seen:
        st.rerun()
    held_up = next(
        (each.words for each in outcomes if each.state == "waiting" and each.words), None
    )
    if held_up:
        st.warning(
            plain(f"{as_sentence(held_up)} The compiles wait for it."),
            icon=":material/hourglass_top:",
        )
    done = sum(state in ("predicted", "does not fit", "failed") for state in states)
    waiting = states.count("waiting")
    of = max(1, done + waiting + states.count("running"))
    words = _doing(points, outcomes, titled)
    if not words:
        words = "Waiting for the cluster" if held_up else "Waiting for another run"
    with (
        st.container(border=True, key="sweep:live"),
        st.container(horizontal=True, vertical_alignment="center"),
    ):
        more = "" if held_up else " more"
        left = roughly(_left_s(points, outcomes)).lower()
        text = plain(f"{done} of {of}. {words}, {waiting}{more} in the queue; {left} left")
        st.progress(done / of, text=text)
        if st.button("Cancel all", key="sweep:cancel", icon=":material/stop_circle:"):
            cancel(partial(as_viewer, lab().cancel), outcomes)
            st.rerun()


def _left_s(points: Sequence[SweepPoint], outcomes: Sequence[Outcome]) -> float:
    """Returns the seconds that compiles in the queue and the one at work take, less those it took."""
    took, left_s = seconds_taken(lab(), outcomes), 0.0
    for point, outcome in zip(points, outcomes, strict=True):
        if outcome.state in ("waiting", "running"):
            status = lab().status(outcome.run) if outcome.run else None
            elapsed_s = (status.elapsed_s if status else None) or 0.0
            left_s += max(0.0, compile_seconds(point, took) - elapsed_s)
    return left_s


def _doing(points: Sequence[SweepPoint], outcomes: Sequence[Outcome], titled: Titled) -> str:
    for point, outcome in zip(points, outcomes, strict=True):
        if outcome.state == "running":
            status = lab().status(outcome.run) if outcome.run else None
            words = f"Compiling for {titled(point)}"
            if status and status.elapsed_s is not None:
                words += f" · {status.elapsed_s:.0f} s"
            if status and (paused := paused_words(status)):
                words += f"; {paused}"
            return words
    return ""

"""Asking for a run and following it, on every screen: refusals, progress, how it ended."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import streamlit as st

from spmd_core.base import RequestError, seconds_text
from spmd_core.experiment import Experiment, newest
from spmd_core.machine import compiler_refusal
from spmd_core.results import Point
from spmd_core.runs import COMPILING, Pace, RunStatus, behind
from spmd_core.search import link
from spmd_core.surveys.search import asked_words
from spmd_core.terms import axes_words, experiment_words, kind_title, state_words, title
from spmd_core.trials import Search, searches
from spmd_core.words import kept_words, phase_words, progress
from spmd_core.workloads import CALIBRATION
from spmd_lab.ui import cards, links, state
from spmd_lab.ui.charts import bandwidth, by_strategy, colors, curve, glimpse
from spmd_lab.ui.lab import active_of_others, as_viewer, find, lab, may_act, room
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.shell import attempt, done, refusal, reported

_BUTTONS = {
    "compare": "Run",
    "predict": "Compile",
    "layout": "Place it on devices",
    "collectives": "Measure",
    "programs": "Run",
}
MOST_LISTED = 10  # of runs on Overview: a queue of a thousand would be sent twice a second
# twice a second: a first median that is there within a second is also seen within a second
INTERVAL_S = 0.5
IDLE_S = 2.0  # while nothing runs: another viewer's run is listed so long after it was queued
_PACE = "pace"  # what was seen of a run before, by run
_REFUSED = "refused"  # why the last request on a run could not be done, by run
Seen = tuple[tuple[tuple[str, str], ...], tuple[str, ...]]  # active runs and states; newest run


def ask(screen: str, experiment: Experiment, compile_only: bool = False) -> None:
    """Queue an experiment and show its run; where it is refused or cannot be stored, the sentence.
    `compile_only`: nothing of it is executed.

    Workloads of the user's own are run as their files are now, and the fields show these.
    """
    asked: list[str] = []

    def queue() -> None:
        now = newest(experiment)
        asked.append(as_viewer(lab().submit, now, compile_only=compile_only))
        if now != experiment:
            state.replace(screen, now, state.variant_at(screen))

    if done(queue):
        state.set_run(screen, asked[0])
        st.rerun()


def begin(label: str, tried: Experiment) -> None:
    """Draws the one button of what is next; a press opens its answer, or begins it."""
    if not st.button(label, type="primary", icon=":material/arrow_forward:", key="onward"):
        return
    known = [lab().latest(tried) or at_work_on(tried)]
    can_run = may_act() and compiler_refusal(tried.target) is None  # else its screen has the reason
    if known[0] or not can_run or done(lambda: known.append(as_viewer(lab().submit, tried))):
        st.switch_page(cards.page_of(tried), query_params=cards.query(tried, known[-1]))


def follow(
    screen: str, experiment: Experiment, run: str | None, was_at_work: bool = False
) -> RunStatus | None:
    """How the run that a screen shows stands: not here, of other fields, at work, or how it ended.

    Its status once it is over and answers the fields; until then, and for any other run, None.
    `was_at_work` is what the screen's button was drawn by: where the run ended since, the screen is
    drawn anew, or its button would stay disabled.
    """
    if run is None:
        _join(experiment)
        return None
    status = find(run)
    if status is None:
        st.info(
            plain(links.no_run(run, press_words(screen, experiment))), icon=":material/link_off:"
        )
        st.page_link(
            "pages/history.py",
            label="Import its archive on History",
            icon=":material/move_to_inbox:",
            query_params={"runs": run},
        )
        cards.stored(experiment)
        return None
    if not status.experiment.is_alike(experiment):
        _of_other_fields(status)
        return None
    if not status.is_over:
        watch(run)
        return None
    if was_at_work:
        st.rerun()
    outcome(status, press_words(screen, experiment))
    return status


def _of_other_fields(status: RunStatus) -> None:
    st.info(
        f"Run {plain(status.run)} belongs to another experiment than the one in the fields.",
        icon=":material/link_off:",
    )
    st.page_link(
        cards.page_of(status.experiment),
        label="Open that run",
        query_params=cards.query(status.experiment, status.run),
    )


def press_words(screen: str, experiment: Experiment) -> str:
    """Returns the label of the button that computes what a screen shows."""
    if experiment.workload == CALIBRATION.name:
        return "Calibrate"
    if screen == "collectives" and experiment.place.is_absent:
        return "Store prediction"
    return _BUTTONS[screen]


def joined(screen: str, experiment: Experiment) -> str | None:
    """Returns the run that a screen shows, after it takes up one at work of just these fields.

    Two tabs of one link show the same run, whichever tab started it.
    """
    run = state.run(screen)
    if run is None and state.notice(screen) is None and (run := at_work_on(experiment)):
        state.set_run(screen, run)
    return run


def at_work_on(experiment: Experiment) -> str | None:
    """Returns the run of an experiment that is queued or running; None where there is none."""
    return next(
        (
            each.run
            for each in lab().active()
            if each.experiment == experiment and not each.compile_only
        ),
        None,
    )


@st.fragment(run_every=IDLE_S)
def _join(experiment: Experiment) -> None:
    if at_work_on(experiment):
        st.rerun()


def is_at_work(run: str | None) -> bool:
    """Whether a run is queued or running, so that its screen's button has nothing to start."""
    status = find(run) if run else None
    return status is not None and not status.is_over


def has_result(run: str | None) -> bool:
    """Whether a run left something that was computed."""
    status = find(run) if run else None
    return status is not None and (status.state == "succeeded" or bool(status.medians_s))


def _points(points: Sequence[Point]) -> None:
    """Draws the points of the axes that are measured now, below what is measured."""
    kind, axes = kind_title(points[-1].kind), points[-1].axes
    shown = [point for point in points if point.axes == axes]
    st.markdown(f"**{plain(f'{kind} over {axes_words(axes)}')}**")
    st.vega_lite_chart(
        bandwidth.sweep_chart(shown, (), bandwidth.TIME, is_complete=False),
        key="live-points",
        alt=bandwidth.sweep_alt(shown, bandwidth.TIME),
        width="stretch",
    )


@st.fragment(run_every=INTERVAL_S)
def watch(run: str) -> None:
    """Queue position, phase, strategy, elapsed time, progress and provisional medians of a run; and
    a way to cancel it.
    """
    status = find(run)
    if status is None or status.is_over:
        st.rerun()
    with st.container(border=True, key="live"):
        with st.container(horizontal=True, vertical_alignment="center"):
            at_hand = behind(status, lab().active()) if status.state == "queued" else None
            # which `_behind` names
            place = replace(status, waiting_for=None) if at_hand else status
            doing = colors.sentence(phase_words(place), status.experiment)
            st.markdown(f"**{state_words(status.state)}** · {doing}", width="stretch")
            if status.elapsed_s is not None:
                st.markdown(f"{status.elapsed_s:.0f} s", width="content")
            _cancel_button(run)
        _cancel_refusal(run)
        if at_hand:
            _behind(at_hand)
        if not status.experiment.what.is_small_program:
            share, words = _progress(status)
            st.progress(share, text=plain(words))
        if status.points:
            _points(status.points)
        if status.series:
            curve.draw_live(status)
        if status.medians_s:
            medians = dict(status.medians_s)
            with st.container(key="live-medians"):
                st.vega_lite_chart(
                    by_strategy.live_chart(medians, status.experiment, status.intervals_s),
                    alt="Median time per call so far: "
                    + ", ".join(f"{title(row)} {seconds_text(s)}" for row, s in medians.items()),
                    key="live-chart",
                )


def _progress(status: RunStatus) -> tuple[float, str]:
    is_compiled = status.experiment.place.is_absent
    last_s = lab().last_took_s(status.experiment) if is_compiled and not status.of else None
    share, words, pace = progress(status, state.aside(_PACE, status.run) or Pace(), last_s)
    state.set_aside(_PACE, status.run, pace)
    return share, words


def listed_runs() -> Seen:
    """The active runs with their states, and the newest stored run: what a screen that lists runs
    was drawn from.
    """
    active = tuple((status.run, status.state) for status in lab().active())
    return active, tuple(each.run for each in lab().history(limit=1))


def watch_queue(seen: Seen) -> None:
    """Every active run in a line each, also those that other viewers started; the screen is drawn
    again when one comes or is over. `seen`: what it was drawn from.
    """
    st.fragment(_queue, run_every=INTERVAL_S if seen[0] else IDLE_S)(seen)


def watch_history(seen: Seen) -> None:
    """Draw the screen again when a run comes, changes its state, or is over."""
    st.fragment(_again, run_every=INTERVAL_S if seen[0] else IDLE_S)(seen)


def _again(seen: Seen) -> None:
    if listed_runs() != seen:
        st.rerun()


def _queue(seen: Seen) -> None:
    now = listed_runs()
    if now[1] != seen[1] or [run for run, _ in now[0]] != [run for run, _ in seen[0]]:
        st.rerun()
    active, foreign = lab().active(), active_of_others()
    for search in searches.at_work():
        _search_row(search)
    for status in active[:MOST_LISTED]:
        _running_row(status, status.run not in foreign)
        _cancel_refusal(status.run)
    if len(active) > MOST_LISTED:
        st.caption(f"And {len(active) - MOST_LISTED} more wait behind these.")
    if not active:
        return
    taken = room()
    with st.container(horizontal=True, vertical_alignment="center"):
        st.caption(plain(taken.words), width="stretch")
        if taken.own and st.button(
            "Cancel all of mine", key="cancel:mine", icon=":material/stop_circle:"
        ):
            state.set_aside(_REFUSED, "mine", attempt(as_viewer, lab().cancel_all))
    _cancel_refusal("mine")


def _search_row(search: Search) -> None:
    """A search whose runs are listed, by its question, with a link."""
    question = search.question
    page, query = "pages/search.py", {"search": link.encode(question)}
    if question.kind == "array" and question.sample.exported:
        page, query = cards.page_of(question.sample), cards.query(question.sample)
    label = f"Search of {asked_words(question)}: its runs are listed here"
    icon = ":material/travel_explore:"
    st.page_link(page, label=plain(label), icon=icon, query_params=query)


def _running_row(status: RunStatus, is_own: bool) -> None:
    """An active run in a line: its shards, its name with a link, how far it is, and Cancel, or that
    it is another viewer's: the screen of the run can cancel it.
    """
    with st.container(
        horizontal=True, vertical_alignment="center", gap="small", key=f"row-now-{status.run}"
    ):
        st.html(glimpse.html(status.experiment), width=90)
        with st.container(gap=None):
            st.page_link(
                cards.page_of(status.experiment),
                label=plain(cards.short_words(status.experiment)),
                query_params=cards.query(status.experiment, status.run),
                help=plain(experiment_words(status.experiment)),
            )
            share, words = _progress(status) if status.of else (0.0, phase_words(status))
            st.progress(share, text=plain(f"{state_words(status.state)}, {words}"))
        if is_own:
            _cancel_button(status.run)
        else:
            st.caption("another viewer's", width="content")


def _behind(at_hand: RunStatus) -> None:
    """Draws behind which run one waits, since when and how long that may take; and what to do."""
    with st.container(horizontal=True, vertical_alignment="center"):
        words = behind_words(at_hand, lab().longest_s(at_hand.experiment))
        st.caption(plain(words), width="stretch")
        st.page_link(
            cards.page_of(at_hand.experiment),
            label="Open it",
            icon=":material/open_in_new:",
            query_params=cards.query(at_hand.experiment, at_hand.run),
        )
        if st.button("Cancel that one", key=f"cancel-ahead:{at_hand.run}"):
            state.set_aside(_REFUSED, at_hand.run, attempt(as_viewer, lab().cancel, at_hand.run))
    _cancel_refusal(at_hand.run)


def _cancel_button(run: str) -> None:
    if st.button("Cancel", key=f"cancel:{run}", icon=":material/stop_circle:"):
        state.set_aside(_REFUSED, run, attempt(as_viewer, lab().cancel, run))


def _cancel_refusal(run: str) -> None:
    """Why the last press changed nothing, such as a full disk: the next look would wipe it away."""
    if sentence := state.aside(_REFUSED, run):
        refusal(sentence)


def outcome(status: RunStatus, button: str) -> None:
    """How a run ended, where it did not succeed: what happened, in its own words, and what to do:
    `button` starts it again.
    """
    if status.state == "succeeded" or not status.is_over:
        return
    result = None
    with suppress(RequestError):  # one that this version cannot read
        result = lab().result(status.run)
    words = {
        "cancelled": f"This run was cancelled: {plain(kept_words(result))}. Press {button} to start again.",
        "interrupted": f"This run was interrupted: SPMD Lab ended while it ran. Press {button} to start again.",
        "timed_out": "This run took longer than allowed and was ended. Use smaller dims or fewer samples, and "
        f"press {button} again.",
        "crashed": "The worker process of this run died. The dashboard and all stored results are safe. "
        f"Press {button} to start again in a fresh one.",
        "failed": "This run failed.",
    }[status.state]
    if status.state == "cancelled":
        st.warning(words, icon=":material/stop_circle:")
    else:
        refusal(words)
    if status.error is not None and status.state != "cancelled":
        reported(status.error.message)
    if status.stderr_tail:
        st.expander("Last output of the worker process").code(
            status.stderr_tail, language=None, wrap_lines=True
        )


def behind_words(at_hand: RunStatus, longest_s: float) -> str:
    """What a waiting run waits for: which run, its progress, since when, and for how long at most."""
    since = f" for {seconds_text(at_hand.elapsed_s)}" if at_hand.elapsed_s is not None else ""
    pauses = ", pauses not counted" if at_hand.lane == COMPILING else ""
    return (
        f"Behind {experiment_words(at_hand.experiment)}: {phase_words(at_hand)}, at work{since}. "
        f"It is ended after {seconds_text(longest_s)} at the latest{pauses}."
    )

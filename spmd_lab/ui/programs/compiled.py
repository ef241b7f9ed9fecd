"""What a compiled program takes beside what it took as it was opened; what limits it, and what to try next."""

from collections.abc import Mapping, Sequence

import streamlit as st

from spmd_core.advice import compiled_findings, effect_words, limit_of
from spmd_core.answers import PEAK, STEP, Figure, WhatIf, quantities
from spmd_core.base import capital, change_text, numbered, seconds_text
from spmd_core.experiment import Experiment
from spmd_core.facts import Change, Estimate, Remedy, sent_at_least
from spmd_core.fields import axes_of
from spmd_core.results import Result, StrategyResult
from spmd_core.runs import Partitioned, RunStatus
from spmd_core.terms import mfu_words
from spmd_core.words import parts, predictions as words, requested_words, waiting
from spmd_lab.ui import next_step, remedies
from spmd_lab.ui.charts import shares
from spmd_lab.ui.lab import lab
from spmd_lab.ui.markdown import as_sentence, coded, plain
from spmd_lab.ui.notebook import labels
from spmd_lab.ui.predict import keep, prediction
from spmd_lab.ui.programs import better, constrain, fix

_BAR = "Time of a step"
_SEEN = 0.01  # of a step: a change below it makes no other bar
_TIMED = (
    "Time: a model of the chip, op by op, on the schedule that XLA compiled. Nothing ran. Its range is "
    f"meant to hold 4 of 5 steps. {words.COMPILED_WORDS}"
)
_HELD = {
    "scheduled": "Memory: the buffers that XLA assigned for this step. No code was made, and a few "
    "programs are refused only then.",
    "final": "Memory: what memory_analysis() of the compiled step reports.",
}
DETAILS = "When, and why: time, communication, memory"


def figures(of: StrategyResult, change: WhatIf | None, room: str) -> list[Figure]:
    """Returns the figures of a compiled program, beside those of it as it was opened where it was
    changed. `room`: of how much memory.
    """
    was = change.programs[0] if change else None
    sent = change.sent_bytes[0] if change else None
    memory, moved, predicted = of.memory_bytes, of.collectives, of.prediction
    now = None if moved is None else sent_at_least(moved)
    rows = quantities(
        (was.peak_bytes if was else None, memory.peak if memory else None),
        (was.predicted_s if was else None, predicted.predicted_s if predicted else None),
        (sent, now),
        has_now_alone=True,
    )
    mfu = mfu_words(predicted.mfu, predicted.mfu_causal) if predicted else ""
    listed = {each.title: each.more for each in rows}
    listed[PEAK] = f"{'as opened → now, ' * bool(change)}{room}".removesuffix(", ")
    listed[STEP] = ", ".join(filter(None, (listed.get(STEP), mfu)))
    return [each._replace(more=listed[each.title]) for each in rows]


def limits(
    of: StrategyResult | None,
    now: Partitioned | None,
    change: WhatIf | None = None,
    offered: Mapping[str, float] | None = None,
) -> None:
    """Draws where the time of a step goes, as it was predicted, else as it was partitioned; beside it
    with the change that is offered, else as the program was opened.

    Args:
      of: the compiled program.
      now: the program as the compiler partitions it.
      change: what all changes do.
      offered: seconds of each part of a step with the change that is offered.
    """
    predicted = of.prediction if of else None
    own = step_parts(of) if of else named_parts(now)
    if not own:
        return
    before = named_parts(change.programs[0]) if change else {}
    if offered:
        rows = {f"{_BAR} now": own, "With the change": offered}
    elif before and abs(sum(own.values()) / sum(before.values()) - 1) >= _SEEN:
        rows = {f"{_BAR} as opened": before, "Now": own}
    else:
        rows = {_BAR: own}
    st.html(shares.step_bars(rows, words.notes_of_parts(predicted) if predicted else {}))


def step_parts(of: StrategyResult) -> Mapping[str, float]:
    """Returns the seconds of each part of a predicted step; {} where its time is not known."""
    predicted = of.prediction
    return parts(predicted) if predicted and predicted.predicted_s else {}


def named_parts(of: Partitioned | None) -> Mapping[str, float]:
    """Returns the same of a program as the compiler partitions it."""
    return words.by_words(of.shares_s) if of and of.shares_s else {}


def misfit_words(of: StrategyResult) -> str:
    """Returns by how much a predicted program does not fit; "" where it does."""
    predicted = of.prediction
    return words.held_words(predicted) if predicted and not predicted.fits else ""


def sure(result: Result, when: str) -> None:
    """Draws what the time and the memory of a compiled program rest on, and the field for a time of
    one's own.
    """
    (of,) = result.strategies.values()
    predicted = of.prediction
    if predicted is None:
        return
    program = result.experiment.exported
    listed = {each.sentence for each in compiled_findings(of, program)} if program else set()
    notes = [each for each in predicted.notes if each and each not in listed]
    held = _HELD.get(predicted.program or "", "")
    lines = [_TIMED, *filter(None, [held]), *map(as_sentence, notes)]
    st.markdown("\n".join(f"- {coded(each)}" for each in lines))
    if predicted.predicted_s is not None:
        keep.own_time(predicted)
    st.caption(plain(f"Compiled by XLA, JAX {result.environment.jax}, {when}: run {result.run}."))


def next_steps(result: Result, experiment: Experiment, is_first: bool = True) -> None:
    """Draws what to try next with a program in which nothing is wrong: changes that would remove what
    it waits for, else other meshes and specs. `is_first`: no other button comes before them.
    """
    if remedy := remedies.best(result):
        _use(result, remedy, is_first)
        better.offer(experiment, is_first=False)
        return
    if tried := remedies.none_of(result):
        st.caption(f":green[:material/check:] {plain(tried)}", width="content")
    own = requested(result)
    is_offered = not own and _waits(result) and remedies.offer(result, "", is_first)
    is_next = is_first and not (is_offered or remedies.is_at_work(result))
    program = experiment.exported
    if (
        not own
        or not program
        or {name for name, _ in program.mesh} - {*program.described.manual_axes}
    ):
        better.offer(experiment, is_first=is_next)
    next_step.draw(result, st.container(width="content"))


def changes_beside(result: Result, is_first: bool) -> str:
    """Draws what would remove what a program waits for, beside the fix of what is wrong with it;
    returns what that is, for below the buttons. `is_first`: it comes before that fix, which saves
    nothing.
    """
    if remedy := remedies.best(result):
        _use(result, remedy, is_first)
    elif _waits(result) and remedies.offer(result, "", is_first):
        (of,) = result.strategies.values()
        return f"{capital(limit_of(of))}."
    return ""


def requested(result: Result) -> str:
    """Returns what a program waits for that its author requests himself; "" of none."""
    (of,) = result.strategies.values()
    return requested_words(of.prediction) if of.prediction else ""


def _waits(result: Result) -> bool:
    (of,) = result.strategies.values()
    return of.prediction is not None and waiting(of.prediction) > 0


def _use(result: Result, remedy: Remedy, is_first: bool) -> None:
    """Draws the change that saves the most, and the button that gives it."""
    (of,) = result.strategies.values()
    seconds, what = remedy.predicted_s, effect_words(remedy)
    if with_best(result):  # its figures are above
        what = what.partition("; ")[0]
    now = of.prediction.predicted_s if of.prediction else None
    label = _named(remedy.changes) or "Use the best change"
    kind = "primary" if is_first else "secondary"
    if st.button(label, type=kind, icon=":material/build:", key="remedy:best"):
        constrain.put(remedy.experiment)
    saved = f"{change_text(seconds_text(seconds.before), seconds_text(seconds.after))} predicted"
    if now and seconds.after > now.low:
        saved += ", within the range of the estimate"
    words = " ".join((as_sentence(f"{saved}: {what}"), _counted(remedy)))
    st.caption(coded(words.strip()), width="stretch")


def _counted(remedy: Remedy) -> str:
    """Returns how many changes a change was compared with, in a sentence; "" where all were compiled."""
    if not remedy.estimated:
        return ""
    number = numbered(remedy.estimated + remedy.compiled, "change")
    most = "the fastest" if remedy.compiled == 1 else f"the {remedy.compiled} fastest"
    return f"{number} estimated, {most} compiled."


def with_best(result: Result) -> StrategyResult | None:
    """Returns the program with the best of the changes that were tried, as it was compiled; None where
    none is faster.
    """
    remedy = remedies.best(result)
    run = lab().latest(remedy.experiment) if remedy else None
    found = lab().result(run) if run else None
    of = found.strategies.get(remedy.strategy or "auto") if remedy and found else None
    return of if of and of.prediction and of.prediction.predicted_s else None


def _known(of: StrategyResult) -> tuple[int | None, Estimate | None, int | None]:
    """Returns the peak of a device, the time of the step, and the bytes that it sends."""
    memory, predicted, moved = of.memory_bytes, of.prediction, of.collectives
    return (
        memory.peak if memory else None,
        predicted.predicted_s if predicted else None,
        None if moved is None else sent_at_least(moved),
    )


def ends(was: StrategyResult, now: StrategyResult, room: str) -> list[Figure]:
    """Returns the figures of a compiled program, and of the same with a change. `room`: of how much
    memory.
    """
    peaks, times, sent = zip(*map(_known, (was, now)), strict=True)
    rows = quantities(peaks, times, sent)
    return [each._replace(more=each.more or room * (each.title == PEAK)) for each in rows]


def _named(changes: Sequence[Change]) -> str:
    """Returns the label of a button that gives specs; "" of other changes."""
    if not changes or any(each.field != "specs" for each in changes):
        return ""
    return f"Use {fix.label({each.name: tuple(map(axes_of, each.after)) for each in changes})}"


def _use_this(at: int, changes: Sequence[Change], changed: Experiment) -> None:
    """Draws the button of one of several changes, which names it."""
    label = _named(changes) or "Use this change"
    if st.button(label, key=f"remedy:{at}", icon=":material/build:"):
        constrain.put(changed)


def changes(result: Result, has_best_above: bool) -> None:
    """Draws the changes that were tried, and how far they are. `has_best_above`: the card has the
    button of the best.
    """
    if not remedies.is_begun(result):
        return
    if has_best_above and remedies.best(result):
        with st.expander("What was tried", icon=":material/build:", key="tried-changes"):
            remedies.draw(result, None, _use_this, has_best_above)
        return
    remedies.draw(result, list(result.strategies), _use_this, has_best_above)


def details(result: Result, status: RunStatus, is_open: bool) -> None:
    """Draws the tabs of a prediction, folded behind what is wrong, and the names of its run."""
    (name,) = result.strategies
    with st.expander(DETAILS, is_open, icon=":material/timeline:", key="program-details"):
        prediction.details(result, name)
        labels.draw(status.run)

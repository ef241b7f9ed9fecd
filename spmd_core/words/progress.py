"""How far a run is, and about how long it still takes: one text for the screens and the terminal."""

from spmd_core.base import numbered, seconds_text
from spmd_core.runs import Pace, RunStatus, expected_processes, paced
from spmd_core.words.runs import compile_words

_ROUGH_S = 5.0  # what is left of a run is rounded to so much: it is an estimate
_COMPILED = ("trace", "lower", "compile", "write")  # phases of what is compiled alone
_ALMOST = 0.97  # of a bar, until the run is over: what was measured is checked and compared


def progress(
    status: RunStatus, before: Pace, last_s: float | None = None
) -> tuple[float, str, Pace]:
    """Returns the share of a run that is done, the same in words with what is left, and its pace.

    `last_s`: seconds that the last compile of its kind took, where that is known.
    """
    is_compiled = status.experiment.place.is_absent
    if is_compiled and not status.of and status.state != "queued":
        return (*compile_words(status, last_s), before)
    if status.compile_only:
        done = _COMPILED.index(status.phase) + 1 if status.phase in _COMPILED else 0
        return done / (len(_COMPILED) + 1), "compiling: nothing runs", before
    if not status.of and status.process == 1:
        return 0.0, f"not {'compiling' if is_compiled else 'measuring'} yet", before
    if status.experiment.what.is_of_machine or status.phase == "train" or is_compiled:
        part, left = "strategy", ""
        if status.experiment.what.is_of_machine:
            part, left = "point", left_words(status)
        elif status.phase == "train":
            part = "step"
        share = min(_ALMOST, status.done / status.of) if status.of else 0.0
        return share, f"{part} {status.done} of {status.of}{left}", before
    now, left_s = paced(status, before)
    return min(_ALMOST, now.share), progress_words(status, left_s), now


def left_words(status: RunStatus) -> str:
    """About how long the points take that are left of a sweep; "" before the first."""
    if not status.done or status.elapsed_s is None:
        return ""
    left_s = status.elapsed_s * (status.of - status.done) / status.done
    return f", {rough}" if (rough := _rough(left_s)) else ""


def _rough(left_s: float) -> str:
    """`about 40 s left`; "" of nothing."""
    if left_s <= 0:
        return ""
    if left_s < _ROUGH_S:
        return f"under {seconds_text(_ROUGH_S)} left"
    return f"about {seconds_text(round(left_s / _ROUGH_S) * _ROUGH_S)} left"


def progress_words(status: RunStatus, left_s: float | None) -> str:
    """The progress in words: `process 2 of 5, round 3 of 20, about 40 s left`; `10 rounds measured`
    while their values are checked, which takes what it takes.
    """
    planned, now = status.experiment.processes, status.process
    expected = expected_processes(status)
    about = "about " if expected > planned else ""
    parts = [f"process {now} of {about}{expected}"] if expected > 1 else []
    if now > planned:
        before = "the first" if planned == 1 else f"the first {planned}"
        parts = [f"process {now}: {before} left a verdict open"]
    if status.phase == "check" and status.done:
        return ", ".join([*parts, f"{numbered(status.done, 'round')} measured"])
    parts.append(f"round {status.done} of {status.of}" if status.of else "not measuring yet")
    rough = _rough(left_s or 0.0)
    return ", ".join([*parts, rough] if rough else parts)

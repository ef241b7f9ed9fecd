"""The changes that were tried for a collective, side by side: predicted and measured seconds of each."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spmd_core.advice.remedies import change_words, first_words, removal_words, times_words
from spmd_core.base import by_key, capital, numbered, seconds_like
from spmd_core.experiment import Experiment
from spmd_core.facts import Change, Predicted, Ratio, Remedy, Removal, TriedChange
from spmd_core.words import factor_text, headline_ratio

AS_IT_WAS = "As it was"
_STAYS, _FAILS, _SLOWER = "the collective stays", "does not compile", "predicted slower"
_TAKES = re.compile(r"[;:] (?:predicted|measured|the best change) ")


@dataclass(frozen=True, slots=True)
class Option:
    """A change, or several of one outcome.

    Attributes:
      predicted_s: None where they have several, or none.
      measured_s: beside the program as it was, in the same rounds; None where it was not timed.
    """

    change: str
    predicted_s: float | None = None
    measured_s: float | None = None
    verdict: str = ""


def conclusion(removal: Removal) -> str:
    """Returns what trying changes showed: the change that is faster, by how much, or that none is."""
    lead = removal_lead(removal)
    if isinstance(removal, Remedy):
        timed, ratio = removal.measured_s, removal.ratio
        if timed and ratio:
            return f"{lead}; {timed_words(timed, ratio)}: {times_words(timed)}"
        unmeasured = ", not measured" * (not removal.experiment.place.is_absent)
        return f"{lead}; predicted {times_words(removal.predicted_s)}{unmeasured}"
    if not removal.tried:
        return lead
    count = len(removal.tried)
    none = f"none of {numbered(count, 'change')}" if count > 1 else "the one change tried is not"
    verb = " is" if count > 1 else ""
    if removal.best is None:
        why = lead.partition(": ")[2]
        left = f"none of {count} changes removes it" if count > 1 else "one change, not removing it"
        return f"{left}: {why}" if why else left
    if removal.measured_s and removal.ratio:
        best = ": the best by prediction was measured" if count > 1 else ""
        return f"{none}{verb} measurably faster{best}"
    sure = "surely " if removal.experiment is not None else ""
    return f"{none}{verb} {sure}predicted to be faster"


def removal_lead(removal: Removal) -> str:
    """Returns the first part of `removal_words`: the change with what it removes, or that nothing
    does, without seconds and other changes.
    """
    return _TAKES.split(removal_words(removal), maxsplit=1)[0]


def best_of(removal: Removal) -> Sequence[Change]:
    """Returns the change that is offered: the remedy, else the best of those that may be faster, where
    it is predicted to be; () where that is none.
    """
    if isinstance(removal, Remedy):
        return removal.changes
    if removal.best is None or removal.experiment is None:
        return ()
    best, was_s = removal.tried[removal.best], removal.seconds
    if removal.measured_s or best.seconds is None or was_s is None:
        return best.changes if removal.measured_s else ()
    text = seconds_like(was_s, best.seconds)
    return best.changes if best.seconds < was_s and text(best.seconds) != text(was_s) else ()


def options(removal: Removal, base: Experiment) -> tuple[Option, ...]:
    """Returns the program as it was, then each change that was tried by its predicted time, those that
    keep the collective last. `base`: what was changed, with the one strategy of the collective.
    """
    if isinstance(removal, Remedy):
        before_s, chosen = removal.predicted_s.before, removal.changes
        after_s = removal.predicted_s.after
        tried = [TriedChange(changes=chosen, removes=True, seconds=after_s)] if chosen else []
    else:
        if removal.seconds is None:
            return ()
        before_s = removal.seconds
        chosen = () if removal.best is None else removal.tried[removal.best].changes
        tried = sorted(removal.tried, key=lambda each: each.seconds or math.inf)
    if not tried:
        return ()
    timed = removal.measured_s
    first = Option(AS_IT_WAS, before_s, timed.before if timed else None)
    return (first, *_changes(removal, base, tried, chosen, before_s))


def _changes(
    removal: Removal,
    base: Experiment,
    tried: Sequence[TriedChange],
    chosen: Sequence[Change],
    before_s: float,
) -> Iterator[Option]:
    def words(each: TriedChange) -> str:
        return change_words(base, each.changes).removeprefix("try ")

    timed, ratio = removal.measured_s, removal.ratio
    for each in tried:
        if timed and ratio and each.changes == chosen:
            judged = timed_words(timed, ratio)
            yield Option(capital(words(each)), each.seconds, timed.after, judged)
        elif each.removes or (each.changes == chosen and each.removes is not None):
            judged = "not measured" * (not base.place.is_absent)
            if not each.removes:
                judged = f"{_STAYS}, {judged}".removesuffix(", ")
            if each.seconds is not None and each.seconds > before_s:
                judged = _SLOWER
            yield Option(capital(words(each)), each.seconds, verdict=judged)
    others = [each for each in tried if not each.removes and each.changes != chosen]
    outcomes = by_key((_FAILS if each.removes is None else _STAYS, words(each)) for each in others)
    for outcome in (_STAYS, _FAILS):
        if alike := outcomes.get(outcome):
            yield Option(capital(first_words(alike)), verdict=outcome)


def timed_words(seconds: Predicted, ratio: Ratio) -> str:
    """Returns how a change that was timed compares with the program as it was."""
    if ratio.verdict == "the same":
        return "the same time"
    is_less = seconds.after < seconds.before
    low, high = ratio.interval
    if ratio.verdict == "cannot tell" and low < 1 < high:
        ends = (1 / low, high) if is_less else (high, 1 / low)
        slower, faster = map(factor_text, ends)
        return f"cannot tell: between {slower}× slower and {faster}× faster"
    words = headline_ratio(ratio, "faster" if is_less else "slower", seconds.quotient)
    return f"cannot tell: {words}" if ratio.verdict == "cannot tell" else words

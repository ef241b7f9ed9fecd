"""The order of candidates, which of them tie, and the front of time against memory."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spmd_core.results.prediction import Estimate
from spmd_core.search.candidate import ORDER, Candidate
from spmd_core.search.question import SECONDS_PER_HOUR, Goal


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate with its score (lower is better) and others of the same estimate and memory."""

    candidate: Candidate
    score: float
    alike: tuple[int, ...] = ()


def score(candidate: Candidate, goal: Goal = "time",
          price: dict[str, float] | None = None) -> float:
    """What is minimized: seconds per token, bytes per device, chip-seconds or price per token.
    ValueError of a candidate without a time.
    """
    if candidate.seconds is None:
        raise ValueError(f"{candidate.name} has no time")
    each = candidate.seconds / candidate.tokens
    if goal == "memory":
        return float(candidate.memory_bytes or 0)
    if goal == "chip-seconds":
        return candidate.chips * each
    if goal == "price":
        hourly = (price or {}).get(candidate.target.split(":")[1], 0.0)
        return candidate.chips * each * hourly / SECONDS_PER_HOUR
    return each


def ranking(found: Iterable[Candidate], goal: Goal = "time",
            price: dict[str, float] | None = None) -> list[Ranked]:
    """Candidates with a time, the best first; at equal scores the faster, then the smaller, then the
    simpler one.

    What is known better stands first: measured before compiled before estimated. Candidates of the
    same estimate, memory and target that nothing else tells apart are one entry.
    """
    scored = sorted(((ORDER[each.fate], score(each, goal, price), each.seconds or 0.0,
                      each.memory_bytes or 0, each.number, each) for each in found
                     if each.is_ranked), key=lambda entry: entry[:5])
    entries: list[Ranked] = []
    places: dict[tuple[object, ...], int] = {}
    for _, value, _, _, number, each in scored:
        key = (each.target, each.tokens, each.seconds, each.memory_bytes, each.strategy,
               each.fate if each.fate == "estimated" else number)
        if key in places and each.fate == "estimated":
            first = entries[places[key]]
            entries[places[key]] = Ranked(first.candidate, first.score, (*first.alike, number))
        else:
            places[key] = len(entries)
            entries.append(Ranked(each, value))
    return entries


def ties(entries: Sequence[Ranked], most: int = 10) -> list[Candidate]:
    """Those of the first `most` that the winner cannot be told from: by their intervals where both
    are measured, by their predictions where one is not.
    """
    if not entries:
        return []
    first = entries[0].candidate
    return [each.candidate for each in entries[1:most] if _close(first, each.candidate)]


def _close(one: Candidate, other: Candidate) -> bool:
    if one.measured_s is not None and other.measured_s is not None:
        if one.interval_s is None or other.interval_s is None:
            return True
        return one.interval_s[1] >= other.interval_s[0] and other.interval_s[1] >= one.interval_s[0]
    if one.measured_s is not None or other.measured_s is not None:
        return False  # a measured winner and a prediction are not compared
    return _overlap(one.predicted, one.tokens, other.predicted, other.tokens)


def _overlap(one: Estimate | None, tokens: int, other: Estimate | None, others: int) -> bool:
    """Whether the estimate of one lies within the interval of the other, per token."""
    if one is None or other is None:
        return True
    mine, theirs = one.estimate / tokens, other.estimate / others
    return one.low / tokens <= theirs <= one.high / tokens \
        or other.low / others <= mine <= other.high / others


def front(entries: Sequence[Ranked]) -> list[Candidate]:
    """Candidates than which none is both faster per token and smaller, the fastest first; of those
    that are known as well as the winner is, where these are several.
    """
    best = [each for each in entries if each.candidate.fate == entries[0].candidate.fate]
    fastest = sorted((each.candidate for each in (best if len(best) > 1 else entries)),
                     key=lambda each: ((each.seconds or 0.0) / each.tokens, each.memory_bytes or 0))
    kept: list[Candidate] = []
    for each in fastest:
        if not kept or (each.memory_bytes or 0) < (kept[-1].memory_bytes or 0):
            kept.append(each)
    return kept

"""Estimates of a search, scaled by the candidates of the same target that are known better."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from spmd_core.base import by_key
from spmd_core.results import Estimate, StoredFact
from spmd_core.search.candidate import Candidate
from spmd_core.time import estimate_step


@dataclass(frozen=True, slots=True)
class Scale:
    """Times of `count` compiled or measured candidates over their estimates: the median, the least
    and the most.
    """

    median: float
    least: float
    most: float
    count: int

    def fact(self, target: str) -> StoredFact:
        """Returns the note that says it."""
        values = {"target": target, "times": self.median, "count": self.count}
        return StoredFact(kind="scaled", values=values | {"least": self.least, "most": self.most})


def estimate_s(candidate: Candidate) -> float | None:
    """Returns the seconds that a candidate was estimated at before it was compiled or measured."""
    if candidate.step is None:
        return sum(seconds for _, seconds in candidate.parts) or None
    predicted = estimate_step(candidate.step.plan).predicted_s
    return predicted.estimate if predicted else None


def scales(candidates: Iterable[Candidate]) -> dict[str, Scale]:
    """Returns the scale of each target of which something is compiled or measured."""
    ratios = by_key(
        (each.target, each.seconds / estimate)
        for each in candidates
        if each.stage in ("compiled", "measured")
        and each.seconds
        and (estimate := estimate_s(each))
    )
    return {
        target: Scale(statistics.median(own), min(own), max(own), len(own))
        for target, own in ratios.items()
    }


def scaled(candidates: Sequence[Candidate], known: dict[str, Scale]) -> tuple[Candidate, ...]:
    """Returns candidates with their estimates times the scale of their target: the interval by the
    ends of the scale, and nothing below the candidate's lower bound.
    """
    if not known:
        return tuple(candidates)
    return tuple(
        _scaled(each, known[each.target])
        if each.stage == "estimated" and each.target in known
        else each
        for each in candidates
    )


def _scaled(each: Candidate, by: Scale) -> Candidate:
    if each.predicted is None:
        return each
    ends = (each.predicted.low * by.least, each.predicted.estimate * by.median)
    low, middle, high = (
        max(end, each.bound_s or 0.0) for end in (*ends, each.predicted.high * by.most)
    )
    return replace(each, predicted=Estimate(low=low, estimate=middle, high=high))

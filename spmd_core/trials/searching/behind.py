"""What compiled candidates show of those that were not: an estimate that was never far
above the program may rule out what is far behind.
"""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spmd_core.base import by_key
from spmd_core.facts import Estimate, StoredFact
from spmd_core.search import Candidate, Reason
from spmd_core.time import estimate_step

REASON: Reason = "estimate far above the best"
DRAWN = 20  # shardings compiled that were drawn at random of those left, before any is ruled out
HELD = 0.01  # of the weight of a candidate: how much each part is held near the median
GAIN = 0.9  # of the error of one scale for all parts: what weights of each part have at most
LIGHTEST = (
    0.05  # of that scale: no part of a time is free, or candidates that differ in it look alike
)
MARGIN = 2.0  # below the least that was seen of a time over its estimate
Kind = tuple[
    str, bool
]  # a target, and whether candidates are estimated by their partitioned programs


@dataclass(frozen=True, slots=True)
class Trust:
    """How far below its estimate a compiled program was: `least` of it, of `compiled` candidates,
    of which `drawn` at random.
    """

    compiled: int
    drawn: int
    least: float

    @property
    def limit(self) -> float:
        """The share of its estimate below which no candidate is believed to be."""
        return self.least / MARGIN


def trust(candidates: Iterable[Candidate], drawn: int) -> Trust | None:
    """What is known of the estimates; None as long as nothing was compiled."""
    shares = [
        each.predicted.estimate / estimate
        for each in candidates
        if each.stage == "compiled" and not each.partitioned
        if each.predicted and (estimate := estimate_s(each))
    ]
    return Trust(len(shares), drawn, min(shares)) if shares else None


def rejudged(candidates: Sequence[Candidate], known: Trust, best_s: float) -> list[Candidate]:
    """Candidates that change: ruled out, since the limit of their estimate is above the best; or
    only estimated again, since the limit has fallen since.
    """
    changed = []
    for each in candidates:
        is_out = each.reason == REASON
        if each.partitioned or (each.stage != "estimated" and not is_out):
            continue
        if not (estimate := estimate_s(each)):
            continue
        is_far = estimate * known.limit / each.tokens > best_s
        if is_far and not is_out:
            changed.append(
                replace(
                    each,
                    stage="pruned",
                    reason=REASON,
                    detail=StoredFact(
                        kind="far behind",
                        values={
                            "estimate_times": estimate / each.tokens / best_s,
                            "least_times": known.least,
                            "compiled": known.compiled,
                            "drawn": known.drawn,
                        },
                    ),
                )
            )
        elif is_out and not is_far:
            changed.append(replace(each, stage="estimated", reason=None, detail=""))
    return changed


@dataclass(frozen=True, slots=True)
class Scale:
    """Times of `count` compiled or measured candidates over their estimates: the median, the least
    and the most. `weights` scale the parts of an estimate, where each has its own.
    """

    median: float
    least: float
    most: float
    count: int
    weights: tuple[float, ...] = ()

    def of(self, candidate: Candidate) -> float:
        """Returns how many times its estimate a candidate of this kind is expected to take."""
        priced = [seconds for _, seconds in candidate.parts]
        if len(priced) != len(self.weights) or not sum(priced):
            return self.median
        return float(np.dot(priced, self.weights)) / sum(priced)

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


def scales(candidates: Iterable[Candidate]) -> dict[Kind, Scale]:
    """Returns the scale of each target of which something is compiled or measured: of what was
    partitioned, and of the rest.
    """
    known = by_key(
        ((each.target, each.partitioned), (each, each.seconds / estimate))
        for each in candidates
        if each.stage in ("compiled", "measured")
        and each.seconds
        and (estimate := estimate_s(each))
    )
    return {kind: _scale(kind, own) for kind, own in known.items()}


def _scale(kind: Kind, known: Sequence[tuple[Candidate, float]]) -> Scale:
    ratios = [ratio for _, ratio in known]
    scale = Scale(statistics.median(ratios), min(ratios), max(ratios), len(ratios))
    are_alike = len({len(each.parts) for each, _ in known}) == 1
    return replace(scale, weights=_weights(known, scale.median)) if kind[1] and are_alike else scale


def _weights(known: Sequence[tuple[Candidate, float]], median: float) -> tuple[float, ...]:
    """Returns the weight of each part of an estimate: the least squares of relative errors, held
    near `median` while few candidates are known; none where more candidates than parts are known, and
    these weights predict each by the others no better than `median` does, as of noisy times.
    """
    parts = np.array([[seconds for _, seconds in each.parts] for each, _ in known])
    shares = parts * median / (parts.sum(1) * [ratio for _, ratio in known])[:, None]
    if len(shares) <= shares.shape[1]:
        return tuple((_fitted(shares) * median).tolist())
    others = [np.delete(shares, at, 0) for at in range(len(shares))]
    apart = [share @ _fitted(left) for share, left in zip(shares, others, strict=True)]
    if _off(np.array(apart)) >= GAIN * _off(shares.sum(1)):
        return ()
    return tuple((_fitted(shares) * median).tolist())


def _fitted(shares: np.ndarray) -> np.ndarray:
    """Returns the weights, in times the median, by which rows of shares sum to 1, none below LIGHTEST."""
    held = math.sqrt(HELD) * np.eye(shares.shape[1])
    wanted = np.concatenate([np.ones(len(shares)), held.sum(0)])
    return np.linalg.lstsq(np.vstack([shares, held]), wanted)[0].clip(LIGHTEST)


def _off(predicted: np.ndarray) -> float:
    """Returns by how much predictions of 1 are off, in the middle, as the logarithm of a factor."""
    return float(np.median(np.abs(np.log(predicted))))


def scaled(candidates: Sequence[Candidate], known: dict[Kind, Scale]) -> tuple[Candidate, ...]:
    """Returns candidates with their estimates times the scale of their kind: the interval by the
    ends of the scale, and nothing below the candidate's lower bound.
    """
    if not known:
        return tuple(candidates)
    return tuple(
        _scaled(each, known[each.target, each.partitioned])
        if each.stage == "estimated" and (each.target, each.partitioned) in known
        else each
        for each in candidates
    )


def _scaled(each: Candidate, by: Scale) -> Candidate:
    if each.predicted is None:
        return each
    ends = (each.predicted.low * by.least, each.predicted.estimate * by.of(each))
    low, middle, high = (
        max(end, each.bound_s or 0.0) for end in (*ends, each.predicted.high * by.most)
    )
    return replace(each, predicted=Estimate(low=low, estimate=middle, high=high))

"""Verdicts on the ratio of two times: the same, faster, or cannot tell; and its interval over
several processes.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Literal

from pydantic import model_validator

from spmd_core.base import Frozen
from spmd_core.experiment import MARGIN

Verdict = Literal["the same", "faster", "cannot tell"]
Settles = Literal["more rounds", "more processes", "a quieter machine"]

CONFIDENCE = 0.99
# A process places code and buffers once: on simulated devices of one machine the same two programs
# differ by at least about so much between processes (log of the ratio, one standard deviation).
PLACEMENT = 0.01
# Three processes may well be placed alike, so that they agree and are wrong: of so few only what is
# as far apart as this counts, and the others are measured in SURE_PROCESSES, then MOST_PROCESSES
SURE_PROCESSES, MOST_PROCESSES = 5, 7
FEW_WITHIN = math.log(1.1)
LOOKS = 3  # at verdicts that may end the measuring: each has its share of the error


def verdict(interval: tuple[float, float], margin: float = MARGIN) -> Verdict:
    """The verdict on a ratio of two times by its interval: `the same` where that is within the
    margin, which is tested first; `faster` where it excludes 1.
    """
    low, high = interval
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return "the same"
    return "faster" if low > 1 or high < 1 else "cannot tell"


class Ratio(Frozen):
    """Time of `strategy` over that of the fastest, over the rounds they share: center and interval,
    corrected for how many are compared. `faster`: the fastest is faster than `strategy`.
    """

    strategy: str
    ratio: float
    interval: tuple[float, float]
    verdict: Verdict
    differs: bool  # whether the verdict is `faster`
    settles: Settles | None = None  # what a verdict of `cannot tell` needs
    rounds: int | None = None  # that they share; None where nothing was timed, and before
    processes: int = 1

    @model_validator(mode="before")
    @classmethod
    def _of_before(cls, data: Any) -> Any:
        """With the verdict of a ratio that was stored before there were three."""
        if not isinstance(data, dict) or "verdict" in data:
            return data
        is_same = verdict(data["interval"]) == "the same"
        unsure: Verdict = "the same" if is_same else "cannot tell"
        return data | {"verdict": "faster" if data["differs"] else unsure}

    def inverse(self, strategy: str) -> "Ratio":
        """The same seen from the other row, which has this name: of the first's time to this one's."""
        low, high = self.interval
        inverse = {"ratio": 1 / self.ratio, "interval": (1 / high, 1 / low)}
        return self.model_copy(update={"strategy": strategy, **inverse})


def over_processes(
    known: Sequence[tuple[float, float]], alpha: float
) -> tuple[float, float, float]:
    """(mean, low, high) of the log of a ratio, from (estimate, standard error) of each process.

    Student's interval of the mean, in which each process weighs by what is expected of its
    variance: PLACEMENT, and its own error. How far processes are apart is known by themselves
    alone, since machines differ; where they are nearer than placement lets expect, that decides.
    """
    weights = [1 / (PLACEMENT**2 + error**2) for _, error in known]
    total, count = sum(weights), len(known)
    mean = sum(weight * each for weight, (each, _) in zip(weights, known, strict=True)) / total
    excess = sum(
        weight * (each - mean) ** 2 for weight, (each, _) in zip(weights, known, strict=True)
    )
    tail = 1 - alpha / LOOKS / 2
    spread = _quantile(tail, math.inf)
    if count > 1:
        spread = max(spread, _quantile(tail, count - 1) * math.sqrt(excess / (count - 1)))
    half = max(spread / math.sqrt(total), FEW_WITHIN if count < SURE_PROCESSES else 0.0)
    return mean, mean - half, mean + half


def wants_more(is_open: Sequence[tuple[float, float]], processes: int, margin: float) -> bool:
    """Whether more than so many processes may well settle a verdict; `is_open`: the intervals of
    the ratios that they leave open. SURE_PROCESSES look at it first, then MOST_PROCESSES.
    """
    if processes == SURE_PROCESSES:
        return any(verdict(_with_all(each), margin) != "cannot tell" for each in is_open)
    return bool(is_open) and processes < MOST_PROCESSES


def _with_all(interval: tuple[float, float]) -> tuple[float, float]:
    """The interval that MOST_PROCESSES are expected to give, by that of SURE_PROCESSES."""
    low, high = map(math.log, interval)
    least = [
        _quantile(1 - (1 - CONFIDENCE) / LOOKS / 2, count - 1) / math.sqrt(count)
        for count in (SURE_PROCESSES, MOST_PROCESSES)
    ]
    middle, half = (low + high) / 2, (high - low) / 2 * least[1] / least[0]
    return math.exp(middle - half), math.exp(middle + half)


@cache
def _quantile(probability: float, degrees: float) -> float:
    from scipy.special import stdtrit  # slow to import, and a plain run needs none

    return float(stdtrit(degrees, probability))

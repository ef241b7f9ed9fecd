"""Verdicts on the ratio of two times: the same, faster, or cannot tell; and its interval over
several processes.
"""

import math
from collections.abc import Sequence
from typing import Literal

from spmd_core.experiment import MARGIN

Verdict = Literal["the same", "faster", "cannot tell"]
Settles = Literal["more rounds", "more processes", "a quieter machine"]

CONFIDENCE = 0.99
# A process places code and buffers once: on simulated devices of one machine the same two programs
# differ by about so much between processes (log of the ratio, one standard deviation). It counts as
# PRIOR further processes, since the spread of three is a poor estimate of the spread of all.
PLACEMENT, PRIOR = 0.01, 2


def verdict(interval: tuple[float, float], margin: float = MARGIN) -> Verdict:
    """The verdict on a ratio of two times by its interval: `the same` where that is within the
    margin, which is tested first; `faster` where it excludes 1.
    """
    low, high = interval
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return "the same"
    return "faster" if low > 1 or high < 1 else "cannot tell"


def over_processes(
    known: Sequence[tuple[float, float]], alpha: float
) -> tuple[float, float, float]:
    """(mean, low, high) of the log of a ratio, from (estimate, standard error) of each of several
    processes.

    Student's interval of the mean, in which each process weighs by what is expected of its variance:
    PLACEMENT, and its own error. Where the processes differ by more than that, the interval is wider
    by as much (Birge 1932), moderated since they are few (Smyth 2004).
    """
    weights = [1 / (PLACEMENT**2 + error**2) for _, error in known]
    total = sum(weights)
    mean = sum(weight * each for weight, (each, _) in zip(weights, known, strict=True)) / total
    excess = sum(
        weight * (each - mean) ** 2 for weight, (each, _) in zip(weights, known, strict=True)
    )
    degrees = PRIOR + len(known) - 1
    variance = (PRIOR + excess) / degrees / total
    half = _student_quantile(degrees, 1 - alpha / 2) * math.sqrt(variance)
    return mean, mean - half, mean + half


def _student_quantile(degrees: int, probability: float) -> float:
    from scipy.special import stdtrit  # slow to import, and a plain run needs none

    return float(stdtrit(degrees, probability))

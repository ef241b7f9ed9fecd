"""What was predicted of many runs beside what was measured of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from spmd_core.results import Result

FEWEST_RANKED = 5  # programs for which a rank correlation means something


@dataclass(frozen=True, slots=True)
class Pair:
    """One timed program of a run; seconds."""

    run: str
    name: str
    predicted_s: float
    measured_s: float

    @property
    def error(self) -> float:
        """By what share of the measured time the prediction is above it."""
        return self.predicted_s / self.measured_s - 1


def pairs_of(result: Result, title: str) -> tuple[Pair, ...]:
    """The strategies of a result that have both; `title` is of its experiment."""
    return tuple(
        Pair(result.run, f"{title}, {strategy}", outcome.predicted_s.estimate, outcome.median_s)
        for strategy, outcome in result.strategies.items()
        if outcome.predicted_s and outcome.median_s and outcome.predicted_s.estimate > 0
    )


def median_error(pairs: Sequence[Pair]) -> float:
    """The median of |predicted / measured - 1|."""
    return median(abs(each.error) for each in pairs)


def spearman(pairs: Sequence[Pair]) -> float:
    """Rank correlation of predicted and measured; ties share their mean rank."""
    left, right = (
        _ranks(np.array(values))
        for values in zip(*((each.predicted_s, each.measured_s) for each in pairs), strict=True)
    )
    if left.std() == 0 or right.std() == 0:
        return 0.0
    return float(np.corrcoef(left, right)[0, 1])


def _ranks(values: np.ndarray) -> np.ndarray:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]

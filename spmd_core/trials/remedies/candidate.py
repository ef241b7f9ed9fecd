"""A change that may remove a collective, before its compile, and timed beside the program."""

import math
from dataclasses import dataclass

from spmd_core.experiment import Experiment
from spmd_core.facts import Change, Collective, Predicted, Ratio
from spmd_core.results import Result

MOST = 8  # that are compiled for one collective, the cheapest by estimate first
FEW = 3  # of those that are estimated to be faster, where estimates are cheap
MOST_VALUES = (
    6  # then, of an exported program, of constraints on the value of the collective's line
)
MOST_MORE = 24  # and of the rest, where none of those removes it
SUMS = ("all-reduce", "reduce-scatter")
# of the program's time: what a collective is worth at least for anything to be tried
WORTH = 0.02


@dataclass(frozen=True, slots=True)
class RemedyCandidate:
    """An experiment with one strategy that differs from another in `changes`; `seconds` is what a
    closed form expects of it, infinite where none does.
    """

    experiment: Experiment
    strategy: str
    changes: tuple[Change, ...]
    seconds: float = math.inf


@dataclass(frozen=True, slots=True)
class AlikeCollectives:
    """Collectives that look the same to a reader, by their numbers in a program's list, and the
    seconds that the devices wait for them.
    """

    numbers: tuple[int, ...]
    first: Collective
    seconds: float


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Median seconds before and after a change, the paired ratio of the slower to the faster, and
    whether the changed program is proven faster.
    """

    seconds: Predicted
    ratio: Ratio
    is_faster: bool


def timed_of(result: Result | None) -> SideBySide | None:
    """What a study of a program and its change measured; None where it did not time both."""
    answer = result.comparison if result else None
    if result is None or answer is None or not answer.ratios:
        return None
    before, after = (row.key for row in result.experiment.rows)
    was, now = result.strategies[before].median_s, result.strategies[after].median_s
    if was is None or now is None:
        return None
    (ratio,) = answer.ratios
    is_faster = ratio.differs and answer.fastest == after
    return SideBySide(Predicted(before=was, after=now), ratio, is_faster)

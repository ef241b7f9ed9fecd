"""A program and a change of it, timed side by side where predictions leave the order open."""

from dataclasses import dataclass

from spmd_core.results import Predicted, Ratio, Result


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

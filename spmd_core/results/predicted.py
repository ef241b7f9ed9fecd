"""Compares rows that were only predicted: they differ if their intervals do not overlap."""

from collections.abc import Mapping

from spmd_core.results.prediction import Estimate
from spmd_core.results.result import Comparison, Ratio, Result


def overlap(one: Estimate, other: Estimate) -> bool:
    """Whether two predicted times are too close to rank: their intervals overlap."""
    return one.low <= other.high and other.low <= one.high


def estimates(result: Result) -> dict[str, Estimate]:
    """Seconds of each row that was only predicted, the fastest first: per token where the rows are
    training steps of different batches.
    """
    times = {}
    for name in result.order:
        time, tokens = result.strategies[name].predicted_s, result.tokens(name)
        if time is not None and name in result.only_predicted_s:
            times[name] = Estimate(
                low=time.low / tokens, estimate=time.estimate / tokens, high=time.high / tokens
            )
    return times


def compare_predicted(times: Mapping[str, Estimate]) -> Comparison | None:
    """Which row is predicted fastest, and how the others compare; None without any. A ratio's
    interval is the widest that both rows' intervals allow.
    """
    order = sorted(times, key=lambda name: times[name].estimate)
    if not order:
        return None
    best = times[order[0]]
    ratios = tuple(
        Ratio(
            strategy=name,
            ratio=times[name].estimate / best.estimate,
            interval=(times[name].low / best.high, times[name].high / best.low),
            differs=not overlap(best, times[name]),
        )
        for name in order[1:]
    )
    return Comparison(
        fastest=order[0],
        ratios=ratios,
        tied=tuple(each.strategy for each in ratios if not each.differs),
    )

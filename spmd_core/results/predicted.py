"""Compares rows that were only predicted, by their intervals."""

from collections.abc import Mapping

from spmd_core.results.prediction import Estimate
from spmd_core.results.result import Comparison, Ratio, Result
from spmd_core.results.verdicts import Verdict, verdict


def predicted_verdict(time: Estimate, best: Estimate) -> Verdict:
    """The verdict on two predicted times: by the widest interval of their ratio that theirs allow."""
    return verdict(_interval(time, best))


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
    ratios = tuple(_ratio(name, times[name], best) for name in order[1:])
    return Comparison(
        fastest=order[0],
        ratios=ratios,
        tied=tuple(each.strategy for each in ratios if not each.differs),
    )


def _ratio(name: str, time: Estimate, best: Estimate) -> Ratio:
    judged = predicted_verdict(time, best)
    return Ratio(
        strategy=name,
        ratio=time.estimate / best.estimate,
        interval=_interval(time, best),
        verdict=judged,
        differs=judged == "faster",
    )


def _interval(time: Estimate, best: Estimate) -> tuple[float, float]:
    return time.low / best.high, time.high / best.low

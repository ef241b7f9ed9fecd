"""Compares some rows of a stored result, by the rounds of all its processes (those of a variant, of
one strategy, or the best of each variant); or by their intervals, where all are only predicted.
"""

from collections.abc import Collection, Iterable, Mapping

from spmd_core.results.prediction import Estimate
from spmd_core.results.result import Comparison, Result
from spmd_core.results.stats import Measured, compare
from spmd_core.results.verdicts import Ratio, Verdict, verdict


def compare_rows(result: Result, names: Iterable[str]) -> Comparison | None:
    """How rows that were measured compare; wrong values are not ranked. None without any."""
    rows = {
        name: outcome
        for name in names
        if (outcome := result.strategies[name]).turns_s
        and outcome.status == "ok"
        and outcome.correct
    }
    count = max((len(outcome.again_s) for outcome in rows.values()), default=0)
    again: list[Measured] = [
        {name: each.again_s[at] for name, each in rows.items() if any(each.again_s[at : at + 1])}
        for at in range(count)
    ]
    timing = result.experiment.timing
    rounds = {name: outcome.turns_s for name, outcome in rows.items()}
    return compare(rounds, timing.samples, again, timing.margin, bool(result.looks))


def best_rows(result: Result) -> tuple[str, ...]:
    """The fastest row of each variant of a study, in the order of their times: measured ones, then
    predicted ones; a baseline only where the variant has no other. Variants without a time are left
    out.
    """
    ranked = {*names_of(result.comparison), *names_of(result.predicted)}
    best: dict[str, str] = {}
    last = result.experiment.baselines.__contains__
    for name in sorted(filter(ranked.__contains__, result.order), key=last):
        best.setdefault(result.row(name).variant, name)
    return tuple(best.values())


def against_baselines(result: Result) -> dict[str, Comparison]:
    """How each baseline of a study compares with the best row of its variants, where a baseline is
    the fastest row of all; else none: the study's own comparison has them.
    """
    best = best_rows(result)
    aside = [name for name in result.experiment.baselines if name not in best]
    if not result.comparison or result.comparison.fastest not in aside:
        return {}
    pairs = {name: compare_rows(result, (best[0], name)) for name in aside} if best else {}
    return {name: pair for name, pair in pairs.items() if pair and pair.ratios}


def without_baselines(result: Result) -> Result:
    """A study with the rows that rank its variants, where a baseline is the fastest row of all."""
    aside = against_baselines(result)
    return of_rows(result, [name for name in result.strategies if name not in aside])


def names_of(answer: Comparison | None) -> tuple[str, ...]:
    """Every row of a comparison, the fastest first; none of no comparison."""
    return (answer.fastest, *(each.strategy for each in answer.ratios)) if answer else ()


def of_rows(result: Result, names: Collection[str]) -> Result:
    """A study with some of its rows alone, and how they compare."""
    return result.model_copy(
        update={
            "strategies": {name: result.strategies[name] for name in names},
            "comparison": _among(result, result.comparison, names),
            "predicted": _among(result, result.predicted, names),
        }
    )


def _among(result: Result, answer: Comparison | None, names: Collection[str]) -> Comparison | None:
    if answer is None or answer.fastest in names:
        return answer and answer.model_copy(
            update={
                "ratios": tuple(each for each in answer.ratios if each.strategy in names),
                "tied": tuple(name for name in answer.tied if name in names),
                "sentence": "",
            }
        )
    listed = [name for name in names_of(answer) if name in names]
    if any(result.strategies[name].turns_s for name in listed):
        return compare_rows(result, listed)
    times = estimates(result)
    return compare_predicted({name: times[name] for name in listed if name in times})


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

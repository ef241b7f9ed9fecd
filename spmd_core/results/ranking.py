"""Compares some rows of a stored result, by the rounds of all its processes (those of a variant, of
one strategy, or the best of each variant); or by their intervals, where all are only predicted.
Plans what a further process is to measure.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from spmd_core.base import firsts_by_key
from spmd_core.facts import Estimate, Ratio, Verdict, verdict, wants_more
from spmd_core.results.result import Comparison, Result, StrategyResult
from spmd_core.results.stats import Measured, compare, hierarchical_interval, median_of_processes

CONFIRMED_BELOW = 1.5  # what surely takes so many times as long is not measured again


def next_process(result: Result) -> tuple[str, ...]:
    """The rows that a further process is to measure: the fastest and all that may be near, among all
    rows and among those by which variants are ranked; where a number of processes was chosen also
    the next one. None where it was measured in enough processes.
    """
    answers = [answer for answer in _answers(result) if answer.ratios]
    if result.partial or not answers or not _is_wanted(result, answers):
        return ()
    if measured := tuple(name for name, each in result.strategies.items() if each.again_s):
        return measured
    is_chosen = bool(result.experiment.timing.processes)
    return tuple(dict.fromkeys(name for each in answers for name in _near(each, is_chosen)))


def _answers(result: Result) -> list[Comparison]:
    """How all rows compare, and how those do that are no baselines, where some are."""
    aside = result.baselines
    ranked = [name for name in result.strategies if name not in aside]
    alone = compare_rows(result, ranked) if aside else None
    return [answer for answer in (result.comparison, alone) if answer is not None]


def _near(answer: Comparison, with_next: bool) -> tuple[str, ...]:
    near = [
        each.strategy
        for each in answer.ratios
        if each.interval[0] < CONFIRMED_BELOW or (with_next and each == answer.ratios[0])
    ]
    return (answer.fastest, *near) if near else ()


def _is_wanted(result: Result, answers: Sequence[Comparison]) -> bool:
    done = 1 + max(len(each.again_s) for each in result.strategies.values())
    if done < result.experiment.processes:
        return True
    if not result.experiment.takes_more:
        return False
    is_open = [
        each.interval
        for answer in answers
        for each in answer.ratios
        if each.verdict == "cannot tell" and each.processes > 1
    ]
    return wants_more(is_open, done, result.experiment.timing.margin)


def with_process(result: Result, further: Result) -> Result:
    """The result with the rounds that a further process measured of its rows, and verdicts on all
    rounds.
    """
    names = next_process(result)
    outcomes = result.strategies | {
        name: _with_rounds(result.strategies[name], further.strategies.get(name)) for name in names
    }
    changed = result.model_copy(update={"strategies": outcomes})
    return changed.model_copy(update={"comparison": compare_rows(changed, outcomes)})


def _with_rounds(before: StrategyResult, further: StrategyResult | None) -> StrategyResult:
    """A row with what a further process measured of it: nothing where it failed there."""
    again = (*before.again_s, further.turns_s if further else ())
    every = [each for each in (before.turns_s[: len(before.samples_s)], *again) if each]
    return before.model_copy(
        update={
            "again_s": again,
            "median_s": median_of_processes(every),
            "ci95_s": hierarchical_interval(every),
        }
    )


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
    last = result.baselines.__contains__
    names = sorted(filter(ranked.__contains__, result.order), key=last)
    return tuple(firsts_by_key((result.row(name).variant, name) for name in names).values())


def against_baselines(result: Result) -> dict[str, Comparison]:
    """How each baseline of a study compares with the best row of its variants, where a baseline is
    the fastest row of all; else none: the study's own comparison has them.
    """
    best = best_rows(result)
    aside = [name for name in result.baselines if name not in best]
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
    return verdict(time.over(best))


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
        interval=time.over(best),
        verdict=judged,
        differs=judged == "faster",
    )

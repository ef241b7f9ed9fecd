"""Compares some rows of a stored result, by the rounds of all its processes: those of a variant, of
one strategy, or the best of each variant.
"""

from collections.abc import Collection, Iterable

from spmd_core.results.predicted import compare_predicted, estimates
from spmd_core.results.result import Comparison, Result
from spmd_core.results.stats import Measured, compare


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
    return compare(rounds, timing.samples, again, timing.margin)


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

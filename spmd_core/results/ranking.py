"""Compares rows of a stored result anew, by the rounds of all its processes: all of them, those of
one variant, or the variants.
"""

from collections.abc import Iterable

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


def compare_variants(result: Result, strategy: str | None = None) -> dict[str, Comparison]:
    """How the variants of a study compare, `measured` and `predicted`, each by its fastest row, or
    by that of one strategy: a comparison whose names are rows. Empty where no two can be compared.
    """
    found = {}
    for kind, answer in (("measured", result.comparison), ("predicted", result.predicted)):
        if answer is None:
            continue
        best: dict[str, str] = {}
        for name in (answer.fastest, *(each.strategy for each in answer.ratios)):
            row = result.row(name)
            if strategy in (None, row.strategy):
                best.setdefault(row.variant, name)
        compared = _among(result, answer, tuple(best.values()))
        if compared is not None and compared.ratios:
            found[kind] = compared
    return found


def _among(result: Result, answer: Comparison, names: tuple[str, ...]) -> Comparison | None:
    """How some of the rows of a comparison compare with the fastest of them."""
    if answer.fastest in names:
        ratios = tuple(each for each in answer.ratios if each.strategy in names)
        tied = tuple(name for name in answer.tied if name in names)
        return answer.model_copy(update={"ratios": ratios, "tied": tied, "sentence": ""})
    if any(result.strategies[name].turns_s for name in names):
        return compare_rows(result, names)
    times = estimates(result)
    return compare_predicted({name: times[name] for name in names if name in times})

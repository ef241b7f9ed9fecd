"""A result over several processes: what a further one is to measure, and the result with it."""

from collections.abc import Sequence

from spmd_core.results.ranking import compare_rows
from spmd_core.results.result import Comparison, Result, StrategyResult
from spmd_core.results.stats import hierarchical_interval, median_of_processes
from spmd_core.results.verdicts import wants_more

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
    aside = result.experiment.baselines
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
    if result.experiment.timing.processes or not result.experiment.variants:
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

"""A result with what would remove its collectives."""

from collections.abc import Iterator, Mapping

from spmd_core.advice import GUESSED, answers_of, next_step, removal_words, with_sentence
from spmd_core.base import RequestError
from spmd_core.experiment import Experiment, study_of
from spmd_core.facts import Collective, Remedy, Removal
from spmd_core.results import Result, StrategyResult
from spmd_core.terms import titles

# strategy -> number of a collective in its list -> what would remove it
Answers = Mapping[str, Mapping[int, Removal]]


def with_remedies(result: Result, answers: Answers) -> Result:
    """The result, its predictions included, with `remove` of each collective that was tried, and
    what to try next by that.
    """
    outcomes = {
        name: _with(each, answers[known], result.row(known).experiment) if known else each
        for name, each in result.strategies.items()
        for known in [
            next((key for key in (name, each.same_program) if answers.get(key or "")), None)
        ]
    }
    changed = result.model_copy(update={"strategies": outcomes})
    return changed.model_copy(update={"next": next_step(changed)}) if answers else changed


def beside(experiment: Experiment, changed: Experiment) -> Experiment | None:
    """The study of an experiment, or of its variants, and of a changed one; None where the rules
    refuse it, or it is a variant already.
    """
    members: list[tuple[str | None, Experiment]] = [
        (each.name if experiment.variants else None, each.experiment) for each in experiment.members
    ]
    if changed in [each for _, each in members]:
        return None
    try:
        return study_of([*members, (None, changed)])
    except RequestError:
        return None


def is_guessed(result: Result) -> bool:
    """Whether the seconds of a remedy are by rates that nobody measured."""
    return any(
        isinstance(each.remove, Remedy)
        and each.remove.predicted_by == "guess"
        and not each.remove.measured_s
        for outcome in result.strategies.values()
        for each in outcome.collectives or ()
    )


def _with(
    outcome: StrategyResult, answers: Mapping[int, Removal], base: Experiment
) -> StrategyResult:
    def answered(listed: tuple[Collective, ...]) -> tuple[Collective, ...]:
        return tuple(
            each.model_copy(update={"remove": known and with_sentence(known, base, each)})
            for number, each in enumerate(listed)
            for known in [answers.get(number)]
        )

    changed: dict[str, object] = {"collectives": answered(outcome.collectives or ())}
    if outcome.prediction is not None:  # which lists the same, in the same order
        changed["prediction"] = outcome.prediction.model_copy(
            update={"collectives": answered(outcome.prediction.collectives)}
        )
    return outcome.model_copy(update=changed)


def remedy_lines(result: Result) -> Iterator[str]:
    """A line for each answer, with the strategies that it is of."""
    for each in answers_of(result, list(result.strategies)):
        of = f"{each.what}: " if each.removal.experiment is None else ""
        yield f"remedy, {titles(each.strategies)}: {of}{removal_words(each.removal)}"
    if is_guessed(result):
        yield f"note: {GUESSED}"

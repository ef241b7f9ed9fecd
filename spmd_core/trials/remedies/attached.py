"""A result with what would remove its collectives."""

from collections.abc import Mapping

from spmd_core.results import Collective, Remedy, Removal, Result, StrategyResult

# strategy -> number of a collective in its list -> what would remove it
Answers = Mapping[str, Mapping[int, Removal]]


def with_remedies(result: Result, answers: Answers) -> Result:
    """The result, its predictions included, with `remove` of each collective that was tried."""
    outcomes = {
        name: _with(each, answers[name]) if answers.get(name) else each
        for name, each in result.strategies.items()
    }
    return result.model_copy(update={"strategies": outcomes})


def is_guessed(result: Result) -> bool:
    """Whether the seconds of a remedy are by rates that nobody measured."""
    return any(
        isinstance(each.remove, Remedy) and each.remove.predicted_by == "guess"
        for outcome in result.strategies.values()
        for each in outcome.collectives or ()
    )


def _with(outcome: StrategyResult, answers: Mapping[int, Removal]) -> StrategyResult:
    def answered(listed: tuple[Collective, ...]) -> tuple[Collective, ...]:
        return tuple(
            each.model_copy(update={"remove": answers.get(number)})
            for number, each in enumerate(listed)
        )

    changed: dict[str, object] = {"collectives": answered(outcome.collectives or ())}
    if outcome.prediction is not None:  # which lists the same, in the same order
        changed["prediction"] = outcome.prediction.model_copy(
            update={"collectives": answered(outcome.prediction.collectives)}
        )
    return outcome.model_copy(update=changed)

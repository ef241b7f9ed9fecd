"""The next thing to try after a result: that of the first rule that applies."""

from spmd_core.results import Next, Result
from spmd_core.words.advice.arrays import RULES, Facts
from spmd_core.words.advice.plans import next_plan


def next_step(result: Result) -> Next | None:
    """What to try next; None if there is nothing to vary: a small program, a bare array, a
    calibration, or no successful strategy.
    """
    what = result.experiment.what
    if result.experiment.variants:
        return next_step(result.of_variant(result.row(result.order[0]).variant))
    name = next((name for name in result.order if result.strategies[name].status == "ok"), None)
    if name is None or what.kind not in ("computation", "plan"):
        return None
    outcome = result.strategies[name]
    if what.has_plan:
        return next_plan(result.experiment, outcome.prediction) if outcome.prediction else None
    facts = Facts(result, name, outcome)
    return next((advice for rule in RULES if (advice := rule(facts))), None)


def with_next(result: Result) -> Result:
    """The result with what to try next."""
    return result.model_copy(update={"next": next_step(result)})

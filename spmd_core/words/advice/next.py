"""The next thing to try after a result: the first rule whose number says so."""

from spmd_core.results import Next, Result
from spmd_core.words.advice.arrays import RULES, Facts
from spmd_core.words.advice.plans import next_plan


def next_step(result: Result) -> Next | None:
    """What to try next; None where there is nothing to vary: a small program, a bare array, a
    machine's own figures, or nothing that ran.
    """
    experiment = result.experiment
    if result.experiment.variants:
        return next_step(result.of_variant(result.row(result.order[0]).variant))
    name = next((name for name in result.order if result.strategies[name].status == "ok"), None)
    if name is None or not experiment.what.is_predicted:
        return None
    found = result.strategies[name]
    if experiment.plan:
        return next_plan(experiment.plan, found.prediction) if found.prediction else None
    facts = Facts(result, name, found)
    return next((said for rule in RULES if (said := rule(facts))), None)

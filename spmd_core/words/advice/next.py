"""The next thing to try after a result: that of the first rule whose number is a reason to."""

from spmd_core.experiment import Experiment
from spmd_core.results import SURE_PROCESSES, Next, Result
from spmd_core.words.advice.arrays import RULES, Facts
from spmd_core.words.advice.plans import next_plan
from spmd_core.words.advice.removals import remedied

CONFIRM = (
    "These verdicts are of one process; another one may place code and buffers otherwise: measure "
    "in "
    f"{SURE_PROCESSES} processes"
)

CONFIRM_PLAN = f'"timing": {{"processes": {SURE_PROCESSES}}}'  # of a spec


def confirmation(result: Result) -> Experiment | None:
    """The experiment with a timing plan of several processes, to confirm what one process measured;
    None where nothing is compared, or it was measured in several.
    """
    answer, experiment = result.comparison, result.experiment
    if answer is None or not answer.ratios or experiment.place.is_absent:
        return None
    if any(each.processes > 1 for each in answer.ratios) or experiment.variants:
        return None
    timing = experiment.timing.model_dump() | {"processes": SURE_PROCESSES}
    return experiment.vary(timing=timing)


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
    outcome = result.strategies[name]
    if experiment.plan:
        if outcome.prediction is None:
            return None
        tried = remedied(outcome) if outcome.prediction.fits else None
        return tried or next_plan(experiment.plan, outcome.prediction)
    facts = Facts(result, name, outcome)
    return next((advice for rule in RULES if (advice := rule(facts))), None)

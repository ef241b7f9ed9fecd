"""The next thing to try after a result: that of the first rule whose number is a reason to; and the
rules for a training step, by the instant estimate.
"""

import math

from spmd_core.advice.arrays import RULES, Facts, remedied
from spmd_core.advice.nearest import change_words
from spmd_core.base import RequestError, bytes_text, mesh_text, seconds_text
from spmd_core.experiment import Experiment, experiment_of, resized
from spmd_core.facts import SURE_PROCESSES, Prediction
from spmd_core.machine import Topology
from spmd_core.plan import Plan
from spmd_core.results import Next, Result
from spmd_core.search import best_neighbors
from spmd_core.time import NearestFit, estimate_step, nearest_fit
from spmd_core.words import parts
from spmd_core.workloads import DECODER, parse_plan

WORTH = 0.02  # of the time per token: less is within what the estimate is off


CONFIRM = (
    "These verdicts are of one process; another one may place code and buffers otherwise: measure "
    "in "
    f"{SURE_PROCESSES} processes"
)


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


def next_plan(plan: Plan, prediction: Prediction) -> Next | None:
    """What to try instead of a predicted plan: what fits, else what takes less time per token, else
    more chips. Tens of milliseconds.
    """
    if not prediction.fits:
        return _fit(plan, prediction)
    return _neighbor(plan, prediction) or _more_chips(plan, prediction)


def _fit(plan: Plan, prediction: Prediction) -> Next | None:
    nearest = nearest_fit(plan)
    if nearest is None:
        return None
    missing = prediction.memory_bytes.missing or 0
    return Next(
        rule="does_not_fit",
        number=missing,
        experiment=nearest.experiment,
        sentence=f"{bytes_text(missing)} per device too much. Try: {change_words(plan, nearest)}.",
    )


def _neighbor(plan: Plan, compiled: Prediction) -> Next | None:
    """The best of the plans one change away, by the estimates of both; where that is worth it beside
    what compiling the plan predicted too.
    """
    time = estimate_step(plan).predicted_s
    after, near = next(iter(best_neighbors(plan)), (math.inf, plan))
    if time is None or near == plan:
        return None
    seconds = [each.estimate for each in (time, compiled.predicted_s) if each]
    saved = 1 - after * plan.tokens / time.estimate
    if 1 - after * plan.tokens / min(seconds) < WORTH:
        return None
    best = NearestFit(near, estimate_step(near))
    # from the time of the plan that the screen has above
    takes = f"{seconds_text(seconds[-1])} -> {seconds_text((1 - saved) * seconds[-1])}"
    off = abs(seconds[-1] / time.estimate - 1)
    doubt = f" (this one's is {off:.0%} off)" if off > WORTH else ""
    sentence = (
        f"{takes} for as many tokens, {saved:.1%} less by the estimates of both{doubt}. "
        f"Try: {change_words(plan, best)}."
    )
    return Next(rule="better_plan", number=saved, experiment=best.experiment, sentence=sentence)


def _more_chips(plan: Plan, prediction: Prediction) -> Next | None:
    """The same work for each chip on the next larger topology: what is left to make it faster."""
    total = sum(prediction.shares_s.values())
    if not total or not prediction.binds:
        return None
    here = plan.topology
    topology = next(here.larger(), Topology(here.chip, here.shape, here.slices * 2))
    mesh = resized(plan.mesh, topology, workload=DECODER.name, slices=plan.topology.slices).mesh
    shares = parts(prediction)  # by what the screens call them
    most = max(shares, key=shares.__getitem__)
    share = shares[most] / total
    try:
        other = parse_plan(plan.to_json() | {"target": topology.target, "mesh": mesh})
    except RequestError:
        return None
    sentence = (
        f"{share:.0%} of the step is {most}, and no change of one axis or policy takes less time per "
        f"token: try {topology.target} with {mesh_text(mesh)}."
    )
    return Next(rule="more_chips", number=share, experiment=experiment_of(other), sentence=sentence)

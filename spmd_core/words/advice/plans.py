"""Rules for a training step: what to try instead of a plan, by the instant estimate."""

import math

from spmd_core.base import RequestError, mesh_text
from spmd_core.experiment import NAME, Plan, experiment_of, parse_plan, resized
from spmd_core.machine import Topology
from spmd_core.results import Next, Prediction
from spmd_core.search import best_neighbors
from spmd_core.time import NearestFit, estimate_step, larger, nearest_fit
from spmd_core.words.advice import sentences as words
from spmd_core.words.names import listed
from spmd_core.words.nearest import changes
from spmd_core.words.predictions import parts

WORTH = 0.02  # of the time per token: less is within what the estimate is off


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
        sentence=words.fit_words(missing, listed(list(changes(plan, nearest)))),
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
    now = time.estimate / plan.tokens
    saved = 1 - after / now
    if 1 - after * plan.tokens / min(seconds) < WORTH:
        return None
    best = NearestFit(near, estimate_step(near))
    sentence = words.plan_words(
        saved, listed(list(changes(plan, best))), time.estimate, after * plan.tokens, seconds[-1]
    )
    return Next(rule="better_plan", number=saved, experiment=best.experiment, sentence=sentence)


def _more_chips(plan: Plan, prediction: Prediction) -> Next | None:
    """The same work for each chip on the next larger topology: what is left to make it faster."""
    total = sum(prediction.shares_s.values())
    if not total or not prediction.binds:
        return None
    here = plan.topology
    topology = next(iter(larger(here)), Topology(here.chip, here.shape, here.slices * 2))
    mesh = resized(plan.mesh, topology, workload=NAME, slices=plan.topology.slices).mesh
    shares = parts(prediction)  # by what the screens call them
    most = max(shares, key=shares.__getitem__)
    share = shares[most] / total
    try:
        other = parse_plan(plan.to_json() | {"target": topology.target, "mesh": mesh})
    except RequestError:
        return None
    sentence = words.more_chips_words(share, most, f"{topology.target} with {mesh_text(mesh)}")
    return Next(rule="more_chips", number=share, experiment=experiment_of(other), sentence=sentence)

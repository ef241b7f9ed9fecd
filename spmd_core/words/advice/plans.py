"""Rules for a training step: what to try instead of a plan, by the instant estimate."""

import math
from collections.abc import Iterator
from typing import Any

from spmd_core.base import RequestError, mesh_text
from spmd_core.experiment import NAME, Plan, experiment_of, parse_plan, resized
from spmd_core.machine import Topology
from spmd_core.results import Next, Prediction
from spmd_core.time import NearestFit, estimate_step, larger, nearest_fit
from spmd_core.words.advice import sentences as words
from spmd_core.words.names import listed
from spmd_core.words.nearest import changes
from spmd_core.words.predictions import parts

WORTH = 0.02  # of the time per token: less is within what the estimate is off
INNER = ("tensor", "sequence")


def next_plan(plan: Plan, found: Prediction) -> Next | None:
    """What to try instead of a predicted plan: what fits, else what takes less time per token, else
    more chips. Tens of milliseconds.
    """
    if not found.fits:
        return _fit(plan, found)
    return _neighbor(plan, found) or _more_chips(plan, found)


def _fit(plan: Plan, found: Prediction) -> Next | None:
    nearest = nearest_fit(plan)
    if nearest is None:
        return None
    missing = found.memory_bytes.missing or 0
    return Next(
        rule="does_not_fit",
        number=missing,
        experiment=nearest.experiment,
        sentence=words.fit_words(missing, listed(list(changes(plan, nearest)))),
    )


def _neighbor(plan: Plan, compiled: Prediction) -> Next | None:
    """The best of the plans one change away, where it is worth it beside the plan's own estimate,
    and beside what compiling it predicted where that is less.
    """
    now = min(per_token(plan, estimate_step(plan)), per_token(plan, compiled))
    tried = [NearestFit(other, estimate_step(other)) for other in neighbors(plan)]
    best = min(tried, key=lambda each: per_token(each.plan, each.found), default=None)
    if best is None:
        return None
    after = per_token(best.plan, best.found)
    saved = 1 - after / now
    if saved < WORTH:
        return None
    sentence = words.plan_words(
        saved, listed(list(changes(plan, best))), now * plan.tokens, after * plan.tokens
    )
    return Next(rule="better_plan", number=saved, experiment=best.experiment, sentence=sentence)


def neighbors(plan: Plan) -> Iterator[Plan]:
    """Plans one change away on the same chips: an axis halved or doubled at the cost of `fsdp`,
    another rematerialization, twice or half the sequences.
    """
    sizes = dict(plan.mesh)
    changes: list[dict[str, Any]] = [
        {"remat": remat} for remat in ("none", "minimal", "full") if remat != plan.remat
    ]
    changes += [{"batch_per_device": plan.batch_per_device * by} for by in (2, 0.5)]
    for axis in INNER:
        count, fsdp = sizes.get(axis, 1), sizes.get("fsdp", 1)
        if fsdp % 2 == 0:
            changes.append({"mesh": _with(sizes, fsdp=fsdp // 2, **{axis: count * 2})})
        if count % 2 == 0:
            changes.append({"mesh": _with(sizes, fsdp=fsdp * 2, **{axis: count // 2})})
    for change in changes:
        try:
            yield parse_plan(plan.to_json() | change)
        except RequestError:
            continue


def _with(sizes: dict[str, int], **changed: int) -> dict[str, int]:
    """The mesh with some axes changed; those of size 1 are left out."""
    return {name: size for name, size in (sizes | changed).items() if size > 1 or name == "fsdp"}


def per_token(plan: Plan, found: Prediction) -> float:
    """Estimated seconds per token; infinite where it should not fit."""
    if not found.fits or found.predicted_s is None:
        return math.inf
    return found.predicted_s.estimate / plan.tokens


def _more_chips(plan: Plan, found: Prediction) -> Next | None:
    """The same work for each chip on the next larger topology: what is left to make it faster."""
    total = sum(found.shares_s.values())
    if not total or not found.binds:
        return None
    here = plan.topology
    topology = next(iter(larger(here)), Topology(here.chip, here.shape, here.slices * 2))
    mesh = resized(plan.mesh, topology, workload=NAME, slices=plan.topology.slices).mesh
    shares = parts(found)  # by what the screens call them
    most = max(shares, key=shares.__getitem__)
    share = shares[most] / total
    try:
        other = parse_plan(plan.to_json() | {"target": topology.target, "mesh": mesh})
    except RequestError:
        return None
    sentence = words.more_chips_words(share, most, f"{topology.target} with {mesh_text(mesh)}")
    return Next(rule="more_chips", number=share, experiment=experiment_of(other), sentence=sentence)

"""Changes to a training plan that may remove a collective or make it less: of the mesh's axes and
of the rematerialization policy.
"""

import math

from spmd_core.experiment import experiment_of
from spmd_core.facts import Change, Collective
from spmd_core.plan import Plan
from spmd_core.program import is_ring
from spmd_core.search import best_neighbors
from spmd_core.time import estimate_step
from spmd_core.trials.remedies.candidate import MOST, RemedyCandidate

FLAGS = "compiler_flags"


def candidates(plan: Plan, collective: Collective) -> list[RemedyCandidate]:
    """At most MOST plans to try for one collective, the fastest first by the instant estimate; all
    train on as many tokens, so that their times compare.
    """
    same = [(each, other) for each, other in best_neighbors(plan) if other.tokens == plan.tokens]
    near = [_candidate(plan, other, each) for each, other in _nearest(same, collective.axes)]
    if not is_ring(collective) or plan.without_rings == plan:
        return near
    # of a ring the flag is nearest, and its seconds are estimated only roughly
    time = estimate_step(plan.without_rings).predicted_s
    flag = _candidate(plan, plan.without_rings, time.estimate / plan.tokens if time else math.inf)
    return [flag, *near][:MOST]


def _candidate(plan: Plan, other: Plan, per_token_s: float) -> RemedyCandidate:
    experiment = experiment_of(other)
    return RemedyCandidate(
        experiment,
        experiment.strategies[0],
        _changes(plan, other),
        per_token_s * other.tokens,
    )


def _nearest(priced: list[tuple[float, Plan]], axes: tuple[str, ...]) -> list[tuple[float, Plan]]:
    """MOST of these, the fastest first: the best of those without one of the axes among them."""
    sizes = [dict(other.mesh) for _, other in priced]
    without = [
        pair
        for pair, mesh in zip(priced, sizes, strict=True)
        if any(mesh.get(axis, 1) == 1 for axis in axes)
    ]
    chosen = [*without[: MOST // 2], *priced]
    return sorted({id(pair): pair for pair in chosen[:MOST]}.values(), key=lambda pair: pair[0])


def _changes(plan: Plan, other: Plan) -> tuple[Change, ...]:
    changed = []
    if dict(plan.mesh) != dict(other.mesh):
        changed.append(Change(field="mesh", before=dict(plan.mesh), after=dict(other.mesh)))
    if plan.remat != other.remat:
        changed.append(Change(field="options", name="remat", before=plan.remat, after=other.remat))
    for name in ("save", "offload"):
        if (before := getattr(plan, name)) != (after := getattr(other, name)):
            changed.append(Change(field="options", name=name, before=before, after=after))
    if plan.compiler_flags != other.compiler_flags:
        before, after = (" ".join(each.compiler_flags) for each in (plan, other))
        changed.append(Change(field="options", name=FLAGS, before=before, after=after))
    return tuple(changed)

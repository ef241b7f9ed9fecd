"""Changes to a training plan that may remove a collective or make it less: of the mesh's axes and
of the rematerialization policy.
"""

from spmd_core.experiment import Plan
from spmd_core.results import Change, Collective
from spmd_core.search import best_neighbors
from spmd_core.time import NearestFit, estimate_step
from spmd_core.trials.remedies.candidate import MOST, Candidate
from spmd_core.words import changes, listed


def candidates(plan: Plan, found: Collective) -> list[Candidate]:
    """At most MOST plans to try for one collective, the fastest first by the instant estimate; all
    train on as many tokens, so that their times compare.
    """
    same = [(each, other) for each, other in best_neighbors(plan) if other.tokens == plan.tokens]
    return [
        Candidate(
            near.experiment,
            near.experiment.strategies[0],
            _changes(plan, other),
            f"try {listed(list(changes(plan, near)))}",
            each * other.tokens,
        )
        for each, other in _nearest(same, found.axes)
        for near in [NearestFit(other, estimate_step(other))]
    ]


def _nearest(found: list[tuple[float, Plan]], axes: tuple[str, ...]) -> list[tuple[float, Plan]]:
    """MOST of these, the fastest first: the best of those without one of the axes among them."""
    sizes = [dict(other.mesh) for _, other in found]
    without = [
        pair
        for pair, mesh in zip(found, sizes, strict=True)
        if any(mesh.get(axis, 1) == 1 for axis in axes)
    ]
    chosen = [*without[: MOST // 2], *found]
    return sorted({id(pair): pair for pair in chosen[:MOST]}.values(), key=lambda pair: pair[0])


def _changes(plan: Plan, other: Plan) -> tuple[Change, ...]:
    found = []
    if dict(plan.mesh) != dict(other.mesh):
        found.append(Change(field="mesh", before=dict(plan.mesh), after=dict(other.mesh)))
    if plan.remat != other.remat:
        found.append(Change(field="options", name="remat", before=plan.remat, after=other.remat))
    for name in ("save", "offload"):
        if (before := getattr(plan, name)) != (after := getattr(other, name)):
            found.append(Change(field="options", name=name, before=before, after=after))
    return tuple(found)

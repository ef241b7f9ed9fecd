"""Changes to a training plan that may remove a collective or make it less: of the mesh's axes and
of the rematerialization policy.
"""

from collections.abc import Iterator
from typing import Any

from spmd_core.base import RequestError
from spmd_core.experiment import Plan, parse_plan
from spmd_core.program import is_ring
from spmd_core.results import Change, Collective
from spmd_core.time import NearestFit, estimate_step
from spmd_core.trials.remedies.candidate import MOST, Candidate
from spmd_core.words import INNER, changes, listed, neighbors, per_token

FLAGS = "compiler_flags"


def candidates(plan: Plan, found: Collective) -> list[Candidate]:
    """At most MOST plans to try for one collective, the fastest first by the instant estimate; all
    train on as many tokens, so that their times compare.
    """
    kept = dict[str, Candidate]()
    apart = [plan.without_rings] if is_ring(found) else []
    for other in (*apart, *_without(plan, found.axes), *neighbors(plan)):
        if other.tokens != plan.tokens or other == plan:
            continue
        near = NearestFit(other, estimate_step(other))
        varied = near.experiment
        kept[varied.id] = Candidate(
            varied,
            varied.strategies[0],
            _changes(plan, other),
            f"try {listed(list(changes(plan, near)))}",
            per_token(other, near.found) * other.tokens,
        )
    # of a ring the flag is nearest, and its seconds are estimated only roughly
    return sorted(kept.values(), key=lambda each: (each.changes[0].name != FLAGS, each.seconds))[
        :MOST
    ]


def _without(plan: Plan, axes: tuple[str, ...]) -> Iterator[Plan]:
    """Plans whose mesh has none of the inner axes that a collective runs over: fsdp has them."""
    sizes = dict(plan.mesh)
    for axis in axes:
        if axis in INNER and sizes.get(axis, 1) > 1:
            left = {name: size for name, size in sizes.items() if name != axis}
            fields: dict[str, Any] = {"mesh": left | {"fsdp": left.get("fsdp", 1) * sizes[axis]}}
            try:
                yield parse_plan(plan.to_json() | fields)
            except RequestError:
                continue


def _changes(plan: Plan, other: Plan) -> tuple[Change, ...]:
    found = []
    if dict(plan.mesh) != dict(other.mesh):
        found.append(Change(field="mesh", before=dict(plan.mesh), after=dict(other.mesh)))
    if plan.remat != other.remat:
        found.append(Change(field="options", name="remat", before=plan.remat, after=other.remat))
    if plan.compiler_flags != other.compiler_flags:
        before, after = (" ".join(each.compiler_flags) for each in (plan, other))
        found.append(Change(field="options", name=FLAGS, before=before, after=after))
    return tuple(found)

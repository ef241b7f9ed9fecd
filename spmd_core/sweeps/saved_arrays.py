"""Plans of one mesh that differ in what the forward pass saves and offloads, and the fastest."""

import math
from collections.abc import Iterable, Sequence
from functools import cache

from spmd_core.plan import Plan
from spmd_core.search import REMATS, Policy, policies, smallest
from spmd_core.time import MeshEstimates

# of a mesh: seconds that none of its plans stays below, its place, and its plans that fit with what
# they offload
Fitting = tuple[float, int, MeshEstimates, list[tuple[Plan, int]]]


def rematerialized(first: Plan, remats: Sequence[str]) -> list[Plan]:
    """Returns the plan, and it with each of these rematerializations."""
    own = first.remat, first.save, first.offload
    return [
        first.model_copy(update={"remat": remat, "save": save, "offload": offload})
        for remat, save, offload in dict.fromkeys((own, *((each, (), ()) for each in remats)))
    ]


def offloaded(meshes: Iterable[tuple[Plan, MeshEstimates]]) -> tuple[list[Fitting], int]:
    """Returns plans that fit with arrays in host memory, where none does without, and how many were
    tried.
    """
    fitting: list[Fitting] = []
    tried = 0
    for first, estimates in meshes:
        bare = first.model_copy(update={"remat": "full", "save": (), "offload": ()})
        capacity = first.topology.chip.capacity
        if first.stages > 1 or estimates.memory(bare).of_any_batch > capacity.device:
            continue
        some = [first.model_copy(update=each.fields) for each in smallest(_policies(first, True))]
        memories = [(each, estimates.memory(each)) for each in some]
        tried += len(some)
        if held := [(each, memory.host) for each, memory in memories if memory.is_held(capacity)]:
            fitting.append((estimates.least(), len(fitting), estimates, held))
    return fitting, tried


def fastest(fitting: Sequence[Fitting]) -> Plan:
    """Returns the plan with the shortest step."""
    shortest: tuple[float, int, int, Plan | None] = math.inf, 0, 0, None
    for least, place, estimates, held in sorted(fitting, key=lambda each: each[:2]):
        if least > shortest[0]:
            break
        for number, (plan, host) in enumerate(held):
            seconds = estimates.time(plan, host).estimate
            shortest = min(shortest, (seconds, place, number, plan))
    assert shortest[-1]
    return shortest[-1]


def with_saved(plan: Plan) -> tuple[Plan, int]:
    """Returns a plan with what it is fastest to save of what is sure to fit, and how many ways were
    tried. Arrays are offloaded only where the plan offloads some.
    """
    if plan.stages > 1:
        return plan, 0
    estimates, capacity = MeshEstimates(plan), plan.topology.chip.capacity
    tried = _policies(plan, bool(plan.offload))
    others = [plan.model_copy(update=each.fields) for each in tried]
    fitting = [(plan, estimates.memory(plan).host)]
    for each in others:
        memory = estimates.memory(each)
        if memory.fits(capacity) == "yes":
            fitting.append((each, memory.host))
    return fastest([(0.0, 0, estimates, fitting)]), len(others)


def _policies(plan: Plan, offloads: bool) -> tuple[Policy, ...]:
    return _tried(offloads, plan.size.gated, plan.size.post_norms)


@cache
def _tried(offloads: bool, gated: bool, post_norms: bool) -> tuple[Policy, ...]:
    return policies(REMATS, offloads, gated, post_norms)

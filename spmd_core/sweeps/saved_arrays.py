"""Plans of one mesh that differ in what the forward pass saves and offloads, and the fastest."""

import math
from collections.abc import Iterable, Sequence
from functools import cache

from spmd_core.plan import Plan
from spmd_core.search import REMATS, Policy, policies, smallest
from spmd_core.time import MemoryEstimate, MeshEstimates

# of a mesh: seconds that none of its plans stays below, its place, and its plans that fit with their
# memory
Fitting = tuple[float, int, MeshEstimates, list[tuple[Plan, MemoryEstimate]]]


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
        if held := [(each, memory) for each, memory in memories if memory.is_held(capacity)]:
            fitting.append((estimates.least(), len(fitting), estimates, held))
    return fitting, tried


def sure_to_fit(fitting: Sequence[Fitting]) -> Sequence[Fitting]:
    """Returns the meshes with their plans that are sure to fit; all of them where none is."""
    sure: list[Fitting] = []
    for least, place, estimates, held in fitting:
        capacity = held[0][0].topology.chip.capacity
        if plans := [each for each in held if each[1].fits(capacity) == "yes"]:
            sure.append((least, place, estimates, plans))
    return sure or fitting


def is_any_sure(fitting: Sequence[Fitting]) -> bool:
    """Returns True if a plan of these meshes is sure to fit."""
    return any(
        memory.fits(plan.topology.chip.capacity) == "yes"
        for _, _, _, held in fitting
        for plan, memory in held
    )


def fastest(fitting: Sequence[Fitting]) -> Plan:
    """Returns the plan with the shortest step."""
    shortest: tuple[float, int, int, Plan | None] = math.inf, 0, 0, None
    for least, place, estimates, held in sorted(fitting, key=lambda each: each[:2]):
        if least > shortest[0]:
            break
        for number, (plan, memory) in enumerate(held):
            seconds = estimates.time(plan, memory.host).estimate
            shortest = min(shortest, (seconds, place, number, plan))
    assert shortest[-1]
    return shortest[-1]


def with_saved(best: Plan, fitting: Sequence[Fitting], most: float = math.inf) -> tuple[Plan, int]:
    """Returns the fastest of a plan and of these meshes with what they save of what is sure to fit,
    and how many were tried; the plan where none takes less than `most` seconds. Arrays are offloaded
    only where the plan offloads some.
    """
    offloads = bool(best.offload)
    flat = [(each[2], each[3][0][0]) for each in fitting if each[3][0][0].stages == 1]
    bounds = sorted(
        (estimates.least(), place, estimates, first)
        for place, (estimates, first) in enumerate(flat)
    )
    estimates = MeshEstimates(best)
    own, tried = estimates.time(best, estimates.memory(best).host).estimate, 0
    shortest = min(own, most)
    for least, _, estimates, first in bounds:
        if least >= shortest:
            break
        capacity = first.topology.chip.capacity
        for policy in _policies(first, offloads):
            plan, tried = first.model_copy(update=policy.fields), tried + 1
            memory = estimates.memory(plan)
            if memory.fits(capacity) != "yes" or estimates.is_above(plan, shortest):
                continue
            seconds = estimates.time(plan, memory.host).estimate
            if seconds < shortest:
                shortest, best = seconds, plan
    return best, tried


def _policies(plan: Plan, offloads: bool) -> tuple[Policy, ...]:
    return _tried(offloads, plan.size.gated, plan.size.post_norms)


@cache
def _tried(offloads: bool, gated: bool, post_norms: bool) -> tuple[Policy, ...]:
    return policies(REMATS, offloads, gated, post_norms)

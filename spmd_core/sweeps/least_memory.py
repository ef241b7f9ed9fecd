"""The plan that comes nearest to fitting on chips where none fits."""

import math
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache

from spmd_core.base import RequestError
from spmd_core.plan import Plan, fewer_microbatches
from spmd_core.search import named_meshes
from spmd_core.time import estimate_memory, estimate_step
from spmd_core.workloads import changed_plan

_AXES = ("data", "fsdp", "expert", "sequence", "tensor")
_MOST_PARTS = 1024
_ALIKE = 1.05  # times the least bytes


def least_memory(plan: Plan) -> Plan:
    """Returns the plan of the same chips and batch that comes nearest to fitting: of full
    rematerialization and the most microbatches, with or without block inputs offloaded, on its own
    mesh or one of up to two axes. Of those that hold about the least it is the one with the shortest
    step; the plan itself where it has stages.
    """
    return plan if plan.stages > 1 else _least_memory(plan)


@lru_cache(maxsize=64)
def _least_memory(plan: Plan) -> Plan:
    most, tried = plan.topology.chip.capacity, list[tuple[int, Plan]]()
    for each in _smallest(plan):
        memory = estimate_memory(each)
        tried.append((memory.peak + max(0, memory.host - most.host), each))
    if not tried:
        return plan
    least = _ALIKE * min(held for held, _ in tried)
    return min((each for held, each in tried if held <= least), key=_seconds)


def _seconds(plan: Plan) -> float:
    time = estimate_step(plan).predicted_s
    return time.estimate if time else math.inf


def _smallest(plan: Plan) -> Iterator[Plan]:
    sizes = plan.axis_sizes
    axes = _AXES if plan.size.experts > 1 else [name for name in _AXES if name != "expert"]
    meshes = dict.fromkeys((plan.mesh, *named_meshes(plan.topology.devices, tuple(axes), 2)))
    if plan.topology.slices > 1 or not {*sizes} <= {*_AXES}:
        meshes = {plan.mesh: None}
    for mesh in meshes:
        parts = fewer_microbatches(_MOST_PARTS, plan.batch, mesh)
        for offload in ((), ("input",)):
            change = {"mesh": mesh, "microbatches": parts, "remat": "full", "save": ()}
            with suppress(RequestError):
                yield changed_plan(plan, change | {"offload": offload})

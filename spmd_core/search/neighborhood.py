"""Plans one change away from a plan: the one neighborhood that Next and remedies ask, and whose
plans a search has in its space.
"""

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from spmd_core.base import RequestError
from spmd_core.plan import AXES, CONTEXT, LONG_SEQUENCE, NAMES, Plan
from spmd_core.search.policies import policies
from spmd_core.time import MeshEstimates
from spmd_core.workloads import parse_plan

Mesh = dict[str, int]


def neighbors(plan: Plan) -> Iterator[Plan]:
    """Plans one change away on the same chips, each once: part or all of an axis moved to any
    other, another policy of a search or of one name, twice or half the sequences.
    """
    seen: set[Plan] = set()
    seen.add(plan)
    for change in _changes(plan):
        try:
            other = parse_plan(plan.to_json() | change)
        except RequestError:
            continue
        if other not in seen:
            seen.add(other)
            yield other


@lru_cache(64)  # each view of a result needs it
def best_neighbors(plan: Plan) -> tuple[tuple[float, Plan], ...]:
    """(estimated seconds per token, neighbor) of those that are sure to fit, the fastest first; of
    equal ones that which offloads and saves less.
    """
    capacity = plan.topology.chip.capacity
    of_mesh: dict[tuple[object, ...], MeshEstimates] = {}
    fitting = []
    for other in neighbors(plan):
        key = other.mesh, other.batch
        estimates = of_mesh[key] = of_mesh.get(key) or MeshEstimates(other)
        memory = estimates.memory(other)
        if memory.fits(capacity) == "yes":
            seconds = estimates.time(other, memory.host).estimate
            fitting.append((seconds / other.tokens, other))
    fitting.sort(key=lambda pair: (pair[0], len(pair[1].offload), len(pair[1].save)))
    return tuple(fitting)


def _changes(plan: Plan) -> Iterator[dict[str, Any]]:
    for policy in policies(
        ("none", "minimal", "full"), True, plan.size.gated, plan.size.post_norms
    ):
        yield policy.fields
    for name in NAMES if plan.remat != "none" else ():
        save, offload = set(plan.save) - {name}, set(plan.offload) - {name}
        for more in ({"save": save}, {"save": save | {name}}, {"offload": offload | {name}}):
            now = {"save": save, "offload": offload} | more
            yield {field: tuple(names) for field, names in now.items()}
    yield from ({"batch_per_device": plan.batch_per_device * by} for by in (2, 0.5))
    yield from ({"mesh": tuple(mesh.items())} for mesh in _meshes(plan))


def _meshes(plan: Plan) -> Iterator[Mesh]:
    """Meshes in which a factor of one axis moves to another; slices stay on the first axis."""
    sizes, slices = dict(plan.mesh), plan.topology.slices
    idle = {"expert"} if plan.size.experts == 1 else set[str]()
    idle |= {CONTEXT} if plan.sequence < LONG_SEQUENCE else set()
    names = [name for name in AXES if name not in idle]
    for source, size in sizes.items():
        for factor in _factors(size):
            for other in names:
                if other != source:
                    mesh = {name: sizes.get(name, 1) for name in names}
                    mesh |= {source: size // factor, other: mesh[other] * factor}
                    kept = {name: each for name, each in mesh.items() if each > 1}
                    if next(iter(kept.values()), 1) % slices == 0:
                        yield kept or {"fsdp": 1}


def _factors(size: int) -> list[int]:
    """The least factor of a size, and the size.

    >>> _factors(12), _factors(2), _factors(1)
    ([2, 12], [2], [])
    """
    least = next((each for each in range(2, math.isqrt(size) + 1) if size % each == 0), size)
    return sorted({least, size} - {1})

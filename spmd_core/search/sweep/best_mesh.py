"""The best mesh of a training step on a topology, by the instant estimate."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from spmd_core.base import RequestError, refuse
from spmd_core.experiment import Mesh, Plan, parse_plan
from spmd_core.machine import Topology, get_topology
from spmd_core.search.factors import named_meshes
from spmd_core.time import estimate_step

BEST = "best"  # in place of a mesh
MOST_AXES = 2  # within a slice
_AXES = ("data", "fsdp", "expert", "sequence", "tensor")
_KEPT = 128


@dataclass(frozen=True, slots=True)
class BestMesh:
    """The plan with the shortest step of those that should fit, else the one with the least memory;
    `tried`: meshes that the sizes divide over."""

    plan: Plan
    tried: int


def best_mesh(form: Mapping[str, object], target: str, batch: float) -> BestMesh:
    """Returns the plan with the best mesh of up to two axes, with `data` over slices beside them.

    Args:
      form: the JSON form of a plan; its target, mesh and batch are replaced.
      target: the topology.
      batch: sequences of a step.

    Raises:
      RequestError: the sizes divide over no mesh.
    """
    kept = {name: value for name, value in form.items() if name not in ("mesh", "target")}
    return _best(json.dumps(kept | {"batch_per_device": None}), target, batch)


@lru_cache(maxsize=_KEPT)
def _best(form: str, target: str, batch: float) -> BestMesh:
    topology = get_topology(target)
    given = json.loads(form) | {"target": topology.target}
    given["batch_per_device"] = batch / topology.devices
    known: list[tuple[bool, float, int, Plan]] = []
    reason = ""
    for mesh in _meshes(topology):
        try:
            plan = parse_plan(given | {"mesh": mesh})
        except RequestError as error:
            reason = reason or str(error)
            continue
        if plan.size.experts == 1 and "expert" in plan.axis_sizes:
            continue
        step = estimate_step(plan)
        time, memory = step.predicted_s, step.memory_bytes
        cost = time.estimate if step.fits and time else (memory.peak or 0) + (memory.host or 0)
        known.append((not step.fits, cost, len(known), plan))
    if not known:
        raise refuse(f"mesh {BEST} on {topology.name}", f"is none ({reason})", "change the sizes")
    return BestMesh(min(known)[3], len(known))


def _meshes(topology: Topology) -> Iterator[Mesh]:
    slices = topology.slices
    yield from named_meshes(topology.devices, _AXES, MOST_AXES)
    if slices > 1:
        for mesh in named_meshes(topology.devices, _AXES, MOST_AXES + 1):
            if len(mesh) > MOST_AXES and mesh[0] == ("data", slices):
                yield mesh

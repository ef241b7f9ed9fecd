"""Estimates of many plans that share a mesh: what they have in common is worked out once."""

from spmd_core.experiment import Plan, parameter_share
from spmd_core.results import Estimate
from spmd_core.time import (
    MemoryEstimate,
    Shapes,
    StepWork,
    Transfer,
    estimate_memory,
    layer_matmuls,
    shapes_of,
    step_bound,
    step_time,
    step_work,
    transfers,
)

# What of a step's sizes does not depend on what it saves: a test compares with `estimate_step`.
_SHARED = ("arrays", "weights", "sequences", "ring", "layer_weight_bytes", "own_parameters")


class MeshEstimates:
    """Plans that differ only in what they save and offload, estimated one by one."""

    def __init__(self, plan: Plan):
        self._base = shapes_of(plan)
        self._shared = {name: getattr(self._base, name) for name in _SHARED}
        self._share = parameter_share(plan)
        self._timed: dict[frozenset[str], tuple[Shapes, StepWork, list[Transfer]]] = {}

    def memory(self, plan: Plan) -> MemoryEstimate:
        """The peak of a plan's step, bytes per device."""
        return estimate_memory(plan, self._share)

    def time(self, plan: Plan, offloaded: int) -> Estimate:
        """Seconds of a plan's step, as `estimate_step` gives them."""
        shapes = Shapes(plan, self._base.topology, self._base.size, self._base.mesh)
        shapes.__dict__.update(self._shared)
        again = shapes.recomputed
        if again not in self._timed:
            self._timed[again] = (
                shapes,
                step_work(shapes),
                transfers(shapes, dict(layer_matmuls(shapes))),
            )
        return step_time(*self._timed[again], offloaded)

    def bound(self, plan: Plan) -> float:
        """Seconds that no program of a plan whose time was asked for stays below."""
        shapes = Shapes(plan, self._base.topology, self._base.size, self._base.mesh)
        return step_bound(*self._timed[shapes.recomputed])

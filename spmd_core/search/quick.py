"""Estimates of many plans that share a mesh: what they have in common is worked out once."""

from spmd_core.cost.memory import MemoryEstimate, estimate_memory
from spmd_core.estimate.bound import step_bound
from spmd_core.estimate.shapes import Shapes, shapes_of
from spmd_core.estimate.step import step_time
from spmd_core.estimate.transfers import Transfer, transfers
from spmd_core.estimate.work import StepWork, layer_matmuls, step_work
from spmd_core.plan.plan import Plan
from spmd_core.plan.sharding import parameter_share
from spmd_core.results.prediction import Estimate

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

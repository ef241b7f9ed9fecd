"""Estimates of many plans that share a mesh: what they have in common is worked out once."""

from spmd_core.experiment import Plan, parameter_share
from spmd_core.results import Estimate
from spmd_core.time.cost.memory import MemoryEstimate, estimate_memory
from spmd_core.time.estimate.bound import step_bound
from spmd_core.time.estimate.shapes import recomputed, shapes_of
from spmd_core.time.estimate.step import step_parts, step_time
from spmd_core.time.estimate.transfers import StepTransfer
from spmd_core.time.estimate.work import StepWork


class MeshEstimates:
    """Plans that differ only in what they save and offload, estimated one by one."""

    def __init__(self, plan: Plan):
        self._shapes, self._share = shapes_of(plan), parameter_share(plan)
        self._known: dict[frozenset[str], tuple[StepWork, list[StepTransfer], float]] = {}

    def memory(self, plan: Plan) -> MemoryEstimate:
        """The peak of a plan's step, bytes per device."""
        return estimate_memory(plan, self._share)

    def time(self, plan: Plan, offloaded: int) -> Estimate:
        """Seconds of a plan's step, as `estimate_step` gives them."""
        work, moved, _ = self._parts(plan)
        return step_time(self._shapes, work, moved, offloaded, recomputed(plan))

    def bound(self, plan: Plan) -> float:
        """Seconds that no program of a plan stays below."""
        return self._parts(plan)[2]

    def _parts(self, plan: Plan) -> tuple[StepWork, list[StepTransfer], float]:
        again = recomputed(plan)
        if again not in self._known:
            parts = step_parts(self._shapes, again)
            self._known[again] = (*parts, step_bound(self._shapes, *parts))
        return self._known[again]

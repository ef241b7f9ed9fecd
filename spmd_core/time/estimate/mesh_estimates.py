"""Estimates of many plans that share a mesh, and seconds that the step of each cannot stay below:
what they have in common is worked out once.
"""

from functools import lru_cache

from spmd_core.base import sums_by_key
from spmd_core.facts import Estimate
from spmd_core.machine import Capacity
from spmd_core.plan import Plan, parameter_share
from spmd_core.time.cost.constants import MATMUL_SHARE
from spmd_core.time.cost.links import straggling
from spmd_core.time.estimate.in_parts import estimate_memory, time_in_parts
from spmd_core.time.estimate.memory import (
    OFF,
    OFF_EXPERTS,
    OFF_OFFLOADED,
    MemoryEstimate,
    kept_bytes,
)
from spmd_core.time.estimate.shapes import LEAST, recomputed, shapes_of, shapes_under
from spmd_core.time.estimate.step import StepParts, step_mfu, step_parts
from spmd_core.time.estimate.work import all_matmuls, step_work

_LOW = 1 - max(OFF, OFF_OFFLOADED, OFF_EXPERTS)  # the low end of a peak over the peak, at least


class MeshEstimates:
    """Plans that differ only in what they save and offload, estimated one by one."""

    def __init__(self, plan: Plan):
        self._shapes = shapes_of(plan)
        self._parameters = plan.size.stored_parameters * parameter_share(plan)
        self._again: dict[tuple[object, ...], frozenset[str]] = {}
        self._least: dict[frozenset[str], float] = {}
        self._slow: list[frozenset[str]] = []
        self._state = 0.0
        self._bound: float | None = None

    def memory(self, plan: Plan) -> MemoryEstimate:
        """The peak of a plan's step, bytes per device."""
        memory = estimate_memory(plan, self._parameters)
        self._state = self._state or memory.of_any_batch * _LOW / (1 - OFF)
        return memory

    def may_fit(self, plan: Plan, most: Capacity) -> bool:
        """Returns False for a plan whose state and kept arrays alone, as far below their estimates as
        the low end of its peak is, or what it offloads, are more than what is allowed.
        """
        if plan.is_in_parts:  # each stage holds its own
            return True
        if not self._state:
            self.memory(plan)
        kept, host = kept_bytes(plan)
        return host <= most.host and self._state + kept * _LOW <= most.device

    def time(self, plan: Plan, offloaded: int) -> Estimate:
        """Seconds of a plan's step, as `estimate_step` gives them."""
        if plan.is_in_parts:
            return time_in_parts(plan)
        return self._parts(plan).time(offloaded)

    def least_work(self) -> float:
        """Seconds that `least` does not stay below: of a device's own work, without transfers."""
        if self._shapes.plan.stages > 1:
            return self.least()
        work = step_work(self._shapes, LEAST, all_matmuls(self._shapes))
        return work.total.seconds * (1 + straggling(self._shapes.topology))

    def least(self) -> float:
        """Seconds that no estimate of a plan on one mesh stays below, whatever it saves and offloads."""
        if self._bound is None:
            plan = self._shapes.plan
            if plan.is_in_parts:
                self._bound = time_in_parts(plan, LEAST).estimate
            else:
                self._bound = _least_of_a_pass(plan.model_copy(update={"microbatches": None}))
        return self._bound

    def is_above(self, plan: Plan, most: float) -> bool:
        """Returns True if a plan takes more than `most`, the same at each call, with nothing
        offloaded, or computes again all that such a plan does.
        """
        # of one schedule nothing follows for another, nor on GPUs, where what is kept takes time
        if plan.stages > 1 or plan.topology.chip.is_gpu:
            return self.time(plan, 0).estimate > most
        again = self._recomputed(plan)
        if any(each <= again for each in self._slow):
            return True
        if again not in self._least:
            self._least[again] = self.time(plan, 0).estimate
        is_slow = self._least[again] > most
        if is_slow and again:  # where nothing is, more is written: not the least
            self._slow.append(again)
        return is_slow

    def bound(self, plan: Plan) -> float:
        """Seconds that no program of a plan stays below."""
        if plan.is_in_parts:  # a stage's transfers repeat as its microbatches do
            return step_mfu(plan, 1.0)  # seconds by the nominal peak
        return step_bound(self._parts(plan))

    def _recomputed(self, plan: Plan) -> frozenset[str]:
        key = plan.remat, plan.save, plan.offload
        if key not in self._again:
            self._again[key] = recomputed(plan)
        return self._again[key]

    def _parts(self, plan: Plan) -> StepParts:
        return step_parts(shapes_under(self._shapes, plan), self._recomputed(plan))


@lru_cache(maxsize=256)  # bounds that order meshes, and that leave out plans
def _least_of_a_pass(plan: Plan) -> float:
    return step_parts(shapes_of(plan), LEAST).time(0).estimate


@lru_cache(maxsize=64)
def step_bound(parts: StepParts) -> float:
    """The largest of three roofs, each as if it hid all else: the model's FLOPs over all chips, and
    a device's matmuls with what is computed again, at the nominal peak; and what each link carries,
    at its nominal rate and without latency.
    """
    shapes = parts.shapes
    busy = sums_by_key(
        (name, each.bound_s * each.count) for each in parts.moved for name in each.where.resources
    )
    flops_s = shapes.plan.flops / (shapes.topology.chips * shapes.chip.peak_flops)
    return max(flops_s, parts.work.total.matmul * MATMUL_SHARE, *busy.values(), 0.0)

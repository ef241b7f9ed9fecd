"""Seconds that a plan's step cannot stay below: what alone may rule a plan out in a search."""

from collections import defaultdict
from collections.abc import Iterable

from spmd_core.time.cost.constants import MATMUL_SHARE
from spmd_core.time.estimate.shapes import Shapes
from spmd_core.time.estimate.transfers import StepTransfer
from spmd_core.time.estimate.work import StepWork


def step_bound(shapes: Shapes, work: StepWork, moved: Iterable[StepTransfer]) -> float:
    """The largest of three roofs, each as if it hid all else: the model's FLOPs over all chips, and
    a device's matmuls with what is computed again, at the nominal peak; and what each link carries,
    at its nominal rate and without latency.
    """
    busy: dict[str, float] = defaultdict(float)
    for each in moved:
        for name in each.where.resources:
            busy[name] += each.bound_s * each.count
    flops_s = shapes.plan.flops / (shapes.topology.chips * shapes.chip.peak_flops)
    return max(flops_s, work.total.matmul * MATMUL_SHARE, *busy.values(), 0.0)

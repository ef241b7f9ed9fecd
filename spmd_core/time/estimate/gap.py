"""What could make a real step longer than its prediction, each with the most that it explains."""

from dataclasses import dataclass
from typing import Literal

from spmd_core.facts import Prediction
from spmd_core.time.cost.constants import (
    KERNEL_HIGH,
    MATMUL_OFF,
    MEMORY_HIGH,
    UNMODELLED,
)
from spmd_core.time.cost.kernels import KERNELS

Cause = Literal["communication", "kernel", "matmul", "memory", "host", "slices", "input"]


@dataclass(frozen=True, slots=True)
class Explained:
    """A cause, and the seconds of a step that it explains at most; None where nothing in the
    prediction bounds it. Then `least_s` is what all bounded causes and what is not modeled leave.
    """

    cause: Cause
    most_s: float | None
    least_s: float = 0.0


def gap_parts(prediction: Prediction, measured_s: float) -> tuple[Explained, ...]:
    """Causes of a step of `measured_s` seconds that took longer than estimated, the largest first
    and what has no bound last; empty where it took no longer, or nothing was estimated.

    Communication: every collective exposed in full. Kernels, matmuls and memory: by the factors of
    the interval. Slices: as much waiting again as is estimated. Input, checkpoints and the host:
    what none of these explains.
    """
    time = prediction.predicted_s
    if time is None or measured_s <= time.estimate:
        return ()
    shares = prediction.shares_s
    hidden = sum(
        max(0.0, (each.seconds or 0.0) * (each.count or 1) - each.exposed_in_all_s)
        for each in prediction.collectives
    )
    bounds: dict[Cause, float] = {
        "communication": hidden,
        "kernel": sum(shares.get(kind, 0.0) for kind in KERNELS) * (KERNEL_HIGH - 1),
        "matmul": shares.get("matmul", 0.0) * (MATMUL_OFF - 1),
        "memory": shares.get("memory", 0.0) * (MEMORY_HIGH - 1),
        "host": shares.get("wait: host", 0.0),
        "slices": shares.get("wait: slices", 0.0),
    }
    bounded = [Explained(cause, most) for cause, most in bounds.items() if most > 0]
    bounded.sort(key=lambda each: -(each.most_s or 0.0))
    known = time.estimate * (1 + UNMODELLED) + sum(each.most_s or 0.0 for each in bounded)
    return (*bounded, Explained("input", None, max(0.0, measured_s - known)))

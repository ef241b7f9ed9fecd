"""How near a measured run comes to what its machine reaches, and what that lets expect of it.

Three roofs, in seconds: its FLOPs at the matmul rate of its dtype, the bytes of its operands and
results at the copy bandwidth, and its collectives. None can be beaten, so that the largest is a
bound; what a call costs at least is a fourth. Expected is the dispatch floor, then the larger of
compute and memory, then the collectives.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from spmd_core.experiment import Experiment
from spmd_core.facts import Collective, Estimate
from spmd_core.results import Operation, Result, Roofline, StrategyResult
from spmd_core.roofline.calibration import Calibration
from spmd_core.roofline.duration import Source
from spmd_core.roofline.stored_results import times_where_run
from spmd_core.roofline.time_model import (
    OFF as OFF_CALIBRATED,
    OFF_AS_MANY,
    TimeModel,
    interval,
)
from spmd_core.workloads import DTYPE_BYTES, STRATEGIES


def with_roofline(result: Result, known: Result | None) -> Result:
    """The result with each timed strategy's roofs by a calibration of its target and mesh, and with
    what that lets expect where nothing else predicts it.
    """
    if known is None or result.experiment.what.kind != "computation":
        return result
    times = times_where_run(result.experiment, result.environment, known)
    outcomes = {
        name: with_roofs(result.experiment, name, each, times)
        for name, each in result.strategies.items()
    }
    return result.model_copy(update={"strategies": outcomes})


def with_roofs(
    experiment: Experiment, name: str, outcome: StrategyResult, times: TimeModel
) -> StrategyResult:
    """One strategy's program with its roofs, and what they let expect where nothing else does."""
    roofs = roofline(experiment, name, outcome.collectives or (), times)
    if roofs is None:
        return outcome
    time = (
        outcome.predicted_s
        or _by_operations(experiment, name, outcome, times)
        or expected_s(roofs, times.calibration)
    )
    return outcome.model_copy(
        update={"roofline": roofs.reached(outcome.median_s), "predicted_s": time}
    )


def _by_operations(
    experiment: Experiment, strategy: str, outcome: StrategyResult, times: TimeModel
) -> Estimate | None:
    """What a compiled program is expected to take, by its operations; None where they were not
    read, or the calibration has no costs.
    """
    known, operations = times.calibration, outcome.operations
    if operations is None or known is None or not known.is_complete:
        return None
    if STRATEGIES[strategy].is_single_device:
        seconds = known.alone_s(operations, experiment.dtype)
        return interval(seconds, known.spread) if math.isfinite(seconds) else None
    moved = moved_s(experiment, outcome.collectives or (), times)
    if moved is None:
        return None
    work = known.work_s(operations, experiment.dtype)
    return interval(times.floor_s + work + sum(moved), known.spread)


def moved_s(
    experiment: Experiment, collectives: Sequence[Collective], times: TimeModel
) -> list[float] | None:
    """Seconds of each collective, all its executions, beyond the dispatch floor; None where nothing
    is known of one.
    """
    each_s = [times.compiled(each, experiment.mesh).seconds for each in collectives]
    known = [seconds for seconds in each_s if seconds is not None]
    if len(known) < len(each_s):
        return None
    return [seconds * each.times for each, seconds in zip(collectives, known, strict=True)]


def roofline(
    experiment: Experiment, strategy: str, collectives: Sequence[Collective], times: TimeModel
) -> Roofline | None:
    """The roofs of one strategy, in seconds; None where what a device reaches is not known, or how
    long a collective takes.
    """
    alone = STRATEGIES[strategy].is_single_device
    rates = times.rates(alone=alone)
    moved = [] if alone else moved_s(experiment, collectives, times)
    if rates is None or moved is None:
        return None
    return Roofline(
        compute_s=flops(experiment, strategy) / rates.flops_per_s,
        memory_s=least_bytes(experiment, strategy) / rates.bytes_per_s,
        communication_s=sum(moved),
        dispatch_s=rates.floor_s,
        ideal_s=experiment.what.flops(experiment.sizes)
        / rates.flops_per_s
        / (1 if alone else experiment.device_count),
    )


def flops(experiment: Experiment, strategy: str) -> float:
    """FLOPs of a device: those of the full computation over the devices that share it. Along axes
    over which nothing is sharded, all do the same.
    """
    total = experiment.what.flops(experiment.sizes)
    if STRATEGIES[strategy].is_single_device:
        return total
    used = {
        axis
        for array in experiment.what.arrays
        for axes in experiment.spec(array.name)
        for axis in axes
    }
    return total / math.prod(size for axis, size in experiment.mesh if axis in used)


def least_bytes(experiment: Experiment, strategy: str) -> float:
    """Bytes that a device reads and writes at least: its shard of each operand and result, once."""
    what, total = experiment.what, 0.0
    for array in what.arrays:
        dtype = experiment.dtype if array in what.operands else what.result_dtype(experiment.dtype)
        nbytes = math.prod(experiment.shape(array.name)) * DTYPE_BYTES[dtype]
        parts = (
            1
            if STRATEGIES[strategy].is_single_device
            else math.prod(
                experiment.axis_sizes[axis] for axes in experiment.spec(array.name) for axis in axes
            )
        )
        total += nbytes / parts
    return total


def expected_s(roofs: Roofline, known: Calibration | None) -> Estimate:
    """What the roofs let expect, in seconds: low where the largest hides all else, high where
    nothing overlaps and each is as slow as the calibration's spread allows.
    """
    parts = roofs.compute_s, roofs.memory_s, roofs.communication_s, roofs.dispatch_s
    estimate = roofs.dispatch_s + max(parts[:2]) + roofs.communication_s
    ceilings = known.outcome.ceilings if known else ()
    spread = max((each.spread for each in ceilings), default=0.0)
    return Estimate(low=max(parts), estimate=estimate, high=sum(parts) * (1 + spread))


PredictedBy = Literal["cost model", "calibration", "guess"]
FASTER = 0.995  # of a program's time, by the cost model: what is within this is the same
# How far predictions of two programs on a machine that is here may be off, either way: what the
# cost model leaves out of a topology is left out of both.
OFF: dict[PredictedBy, float] = {"calibration": OFF_CALIBRATED, "guess": OFF_AS_MANY}
_BY: dict[Source, PredictedBy] = {
    "nominal": "cost model",
    "calibrated": "calibration",
    "guessed": "guess",
}


@dataclass(frozen=True, slots=True)
class ProgramTime:
    """Seconds of a program, and of each of its collectives what the devices wait for it;
    `floor_s`: what a call of any program takes there.
    """

    total_s: float
    each_s: tuple[float, ...]
    by: PredictedBy = "cost model"
    floor_s: float = 0.0

    def is_less_than(self, other: "ProgramTime") -> bool:
        """Whether it is predicted to take less time by more than predictions are off: of programs
        near the dispatch floor a calibration knows little else.
        """
        if other.by not in OFF:
            return self.total_s <= FASTER * other.total_s
        off = 1 + OFF[other.by]
        return self.total_s * off + other.floor_s < other.total_s / off


def program_time(
    experiment: Experiment, strategy: str, outcome: StrategyResult, times: TimeModel
) -> ProgramTime | None:
    """What a strategy's compiled program is expected to take; None where nothing predicts it, or
    its collectives are not known.
    """
    collectives = outcome.collectives
    if collectives is None:
        return None
    if outcome.prediction is not None:
        time = outcome.prediction.predicted_s
        waited = (
            each.exposed_in_all_s if each.exposed_s is not None else each.total_s
            for each in collectives
        )
        return time and ProgramTime(time.estimate, tuple(waited))  # pyrefly: ignore[bad-return]
    bare = outcome.model_copy(update={"predicted_s": None})
    time = with_roofs(experiment, strategy, bare, times).predicted_s
    each = moved_s(experiment, collectives, times)
    if time is None or each is None:
        return None
    return ProgramTime(time.estimate, tuple(each), _BY[times.source], times.floor_s)


def partitioned_s(
    experiment: Experiment,
    collectives: Sequence[Collective],
    operations: Sequence[Operation],
    times: TimeModel,
) -> dict[str, float] | None:
    """Seconds of a partitioned program by kind: compute, memory, communication; None where nothing
    is known of one of them.
    """
    moved = moved_s(experiment, collectives, times)
    if moved is None:
        return None
    parts = {"compute": 0.0, "memory": 0.0, "communication": sum(moved)}
    for each in operations:
        is_product = each.kind == "matmul"
        one = times.matmul(2 * math.prod(each.sizes)) if is_product else times.memory(each.sizes[0])
        if one.seconds is None:
            return None
        parts["compute" if is_product else "memory"] += one.seconds * each.count
    return parts

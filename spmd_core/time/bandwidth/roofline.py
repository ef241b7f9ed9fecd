"""How near a measured run comes to its machine's ceilings, and what they let expect of it.

Three roofs, in seconds: its FLOPs at the matmul rate of its dtype, the bytes of its operands and
results at the copy bandwidth, and its collectives by the straight lines that were fitted to them. None
can be beaten, so that the largest is a bound; what a call costs at least is a fourth. Expected is
the dispatch floor, then the larger of compute and memory, then what the collectives take beyond
the floor, which their own latency contains.
"""

import math
from collections.abc import Mapping, Sequence

from spmd_core.experiment import DTYPE_BYTES, STRATEGIES, Experiment, element_count
from spmd_core.results import (
    Ceiling,
    Collective,
    Estimate,
    Fit,
    Point,
    Result,
    Roofline,
    StrategyResult,
)
from spmd_core.time.bandwidth.expected import ALONE, FLOOR, Machine, interval
from spmd_core.time.bandwidth.known import measured
from spmd_core.time.bandwidth.predicted import expected

TOO_HIGH = 1.05  # of a ceiling: more is a fault of the ceiling


def with_roofline(result: Result, known: Result | None) -> Result:
    """The result with each timed strategy's roofs by a calibration of its target and mesh, and with
    what that lets expect where nothing else predicts it.
    """
    if known is None or result.experiment.what.kind != "computation":
        return result
    machine = Machine(measured(known))
    found = {
        name: with_roofs(result.experiment, name, each, machine)
        for name, each in result.strategies.items()
    }
    return result.model_copy(update={"strategies": found})


def with_roofs(
    experiment: Experiment, name: str, found: StrategyResult, machine: Machine
) -> StrategyResult:
    """One strategy's program with its roofs, and what they let expect where nothing else does."""
    roofs = roofline(
        experiment, name, found.collectives or (), machine.ceilings, machine.found.fits
    )
    if roofs is None:
        return found
    time = (
        found.predicted_s
        or _by_operations(experiment, name, found, machine)
        or expected_s(roofs, machine.ceilings)
    )
    return found.model_copy(update={"roofline": roofs.reached(found.median_s), "predicted_s": time})


def _by_operations(
    experiment: Experiment, strategy: str, found: StrategyResult, machine: Machine
) -> Estimate | None:
    """What a compiled program is expected to take, by its operations; None where they were not
    read, or the calibration has no costs.
    """
    if found.operations is None or not machine.is_whole:
        return None
    seconds = (
        machine.alone_s(found.operations, experiment.dtype)
        if STRATEGIES[strategy].is_single_device
        else machine.seconds(found.operations, found.collectives or (), experiment.dtype)
    )
    spread = machine.ceilings[FLOOR].spread
    return interval(seconds, spread) if math.isfinite(seconds) else None


def roofline(
    experiment: Experiment,
    strategy: str,
    collectives: Sequence[Collective],
    ceilings: Mapping[str, Ceiling],
    lines: Sequence[Fit],
) -> Roofline | None:
    """The roofs of one strategy, in seconds; None where the calibration lacks a ceiling."""
    alone = STRATEGIES[strategy].is_single_device
    suffix = ALONE if alone else ""
    dtype = experiment.dtype if f"matmul_{experiment.dtype}" in ceilings else "float32"
    names = (
        f"matmul_{dtype}{suffix}",
        f"copy{suffix}",
        f"copy_in_place{suffix}",
        "dispatch_single" if alone else "dispatch_mesh",
    )
    if any(name not in ceilings for name in names):
        return None
    rate, *copies, floor = (ceilings[name].value for name in names)
    copy = max(copies)  # a fresh result costs the pages that it lies on, which are used again
    moved = 0.0 if alone else sum(beyond_floor_s(each, lines, floor) for each in collectives)
    return Roofline(
        compute_s=flops(experiment, strategy) / rate,
        memory_s=least_bytes(experiment, strategy) / copy,
        communication_s=moved,
        dispatch_s=floor,
        ideal_s=experiment.what.flops(experiment.sizes)
        / rate
        / (1 if alone else experiment.device_count),
    )


def flops(experiment: Experiment, strategy: str) -> float:
    """FLOPs of a device: those of the whole computation over the devices that share it."""
    total = experiment.what.flops(experiment.sizes)
    return total if STRATEGIES[strategy].is_single_device else total / _sharers(experiment)


def _sharers(experiment: Experiment) -> int:
    """Devices that compute different parts: along axes over which nothing is sharded, all do the
    same.
    """
    used = {
        axis
        for array in experiment.what.arrays
        for axes in experiment.spec(array.name)
        for axis in axes
    }
    return math.prod(size for axis, size in experiment.mesh if axis in used)


def least_bytes(experiment: Experiment, strategy: str) -> float:
    """Bytes that a device reads and writes at least: its shard of each operand and result, once."""
    what, total = experiment.what, 0.0
    for array in what.arrays:
        dtype = experiment.dtype if array in what.operands else what.result_dtype(experiment.dtype)
        nbytes = element_count(experiment.shape(array.name)) * DTYPE_BYTES[dtype]
        parts = (
            1
            if STRATEGIES[strategy].is_single_device
            else math.prod(
                experiment.axis_sizes[axis] for axes in experiment.spec(array.name) for axis in axes
            )
        )
        total += nbytes / parts
    return total


def beyond_floor_s(each: Collective, lines: Sequence[Fit], floor_s: float) -> float:
    """Seconds that a collective takes beyond the floor of the call that it is part of, by the line
    of its kind and axes; by that of its kind among as many devices where its axes have none.
    """
    alike = (
        [fit for fit in lines if fit.kind == each.kind and fit.axes == each.axes]
        or [fit for fit in lines if fit.kind == each.kind and fit.devices == each.group_size]
        or [fit for fit in lines if fit.kind == each.kind]
    )
    if not alike:
        return 0.0
    point = Point(
        kind=each.kind, axes=each.axes, devices=alike[0].devices, dtype="", bytes=each.bytes
    )
    return max(0.0, expected(point, alike[0]) - floor_s) * each.times


def expected_s(roofs: Roofline, ceilings: Mapping[str, Ceiling]) -> Estimate:
    """What the roofs let expect, in seconds: low where the largest hides all else, high where
    nothing overlaps and each is as slow as the calibration's spread says.
    """
    parts = roofs.compute_s, roofs.memory_s, roofs.communication_s, roofs.dispatch_s
    estimate = roofs.dispatch_s + max(parts[:2]) + roofs.communication_s
    spread = max((each.spread for each in ceilings.values()), default=0.0)
    return Estimate(low=max(parts), estimate=estimate, high=sum(parts) * (1 + spread))

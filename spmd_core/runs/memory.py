"""Refuses an experiment that cannot run here, for one for lack of memory, before anything is
allocated.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from spmd_core.base import Inexpressible, bytes_text, refuse
from spmd_core.experiment import (
    Experiment,
    check_compiles,
    check_fits_target,
    check_traces,
    dtype_of,
    read_plan,
)
from spmd_core.machine import Hardware, get_topology
from spmd_core.reference import FULL_FLOPS
from spmd_core.results import Environment
from spmd_core.workloads import STRATEGIES, array_bytes, check_present, ladder, program_sizes

CALIBRATION_BYTES = 256 * 2**20  # what a device holds of a calibration, at most
DRAW_BYTES = 8  # operands are drawn, and the reference is computed, in float64


@dataclass(frozen=True, slots=True)
class MemoryNeed:
    """Bytes that a run holds at least. Each strategy keeps its operands placed and its results for
    as long as it is timed.
    """

    host_bytes: int  # what NumPy draws and casts, and the reference where it is computed in full
    device_bytes: int  # on the device that holds most
    all_device_bytes: int  # on all devices of the mesh together


def memory_need(experiment: Experiment) -> MemoryNeed:
    """The least that a run allocates: operands and results of every strategy of every variant, and
    the draws on the host, which variants of one dtype share. What is only predicted needs nothing.

    What the compiler needs besides is not known before it has compiled.
    """
    needs = [
        _need(each.experiment)
        for each in experiment.members
        if not (experiment.is_mixed and each.experiment.place.is_absent)
    ]
    return MemoryNeed(
        max(need.host_bytes for need in needs),
        sum(need.device_bytes for need in needs),
        sum(need.all_device_bytes for need in needs),
    )


def _need(experiment: Experiment) -> MemoryNeed:
    what, sizes = experiment.what, experiment.sizes
    if experiment.what.is_small_program:
        chosen = _program_sizes(experiment)
        known = program_sizes(_program(experiment)).values()
        return MemoryNeed(sum(chosen[size.name] * size.each_bytes for size in known), 0, 0)
    if what.is_of_machine:
        held = _machine_bytes(experiment)
        return MemoryNeed(held // 2, held, held * experiment.device_count)
    counts = [math.prod(array.shape(sizes)) for array in what.operands]
    host = (
        sum(counts) if what.program.derived else max(counts, default=0)
    ) * DRAW_BYTES + what.operand_bytes(sizes, experiment.dtype)
    if what.flops(sizes) <= FULL_FLOPS:
        host += (
            sum(counts) + sum(math.prod(array.shape(sizes)) for array in what.results)
        ) * DRAW_BYTES
    unsharded = what.operand_bytes(sizes, experiment.dtype) + what.result_bytes(
        sizes, experiment.dtype
    )
    on_one = on_all = 0
    for strategy in experiment.strategies:
        if STRATEGIES[strategy].is_single_device:
            on_one, on_all = on_one + unsharded, on_all + unsharded
        else:
            parts = _parts(experiment, strategy)
            # those in host memory count too, since they are moved in
            shard = sum(
                array_bytes(array, experiment.sizes, dtype_of(experiment, array.name)) // count
                for array, count in zip(experiment.what.arrays, parts, strict=True)
                if count
            )
            on_one, on_all = on_one + shard, on_all + shard * experiment.device_count
    return MemoryNeed(host, on_one, on_all)


def _machine_bytes(experiment: Experiment) -> int:
    """What a device holds at most while its machine is measured: operand and result of the largest
    collective, of which one more of each is made before they go.
    """
    if not experiment.what.has_formula:
        return CALIBRATION_BYTES
    return 4 * ladder(dict(experiment.options))[-1]


def _parts(experiment: Experiment, strategy: str) -> list[int]:
    """Into how many parts each operand and result is split: by its spec, or over all devices where
    a map splits it. 0 where nothing is run.
    """
    if not STRATEGIES[strategy].is_map:
        return [
            math.prod(
                experiment.axis_sizes[axis] for axes in experiment.spec(array.name) for axis in axes
            )
            for array in experiment.what.arrays
        ]
    try:
        plan = read_plan(experiment, strategy)
    except Inexpressible:
        return [0] * len(experiment.what.arrays)
    return [1 if axis is None else plan.devices for axis in plan.in_axes + plan.out_axes]


def check_runs_here(
    experiment: Experiment, hardware: Hardware, known: Callable[[str], Environment | None]
) -> None:
    """RequestError where the experiment cannot run on this machine: no such target, a mesh larger
    than it, or too little memory. `known` gives what a target's devices last reported.
    """
    for each in experiment.members:
        _check_alone(each.experiment, hardware, known)
    if not experiment.place.is_absent:
        check_memory(experiment, known(experiment.target), hardware)


def _check_alone(
    experiment: Experiment, hardware: Hardware, known: Callable[[str], Environment | None]
) -> None:
    check_present(experiment.what)
    target = experiment.place
    if target.is_absent:
        check_fits_target(experiment.mesh, target, get_topology(target).devices)
        check_compiles(experiment.what, target)
        check_traces(experiment.options, target)
        return
    if target.is_here and hardware.accelerator is None:
        raise refuse("target local", "finds no accelerator on this machine", "use cpu:8")
    environment = known(target.text)
    check_fits_target(experiment.mesh, target, environment.device_count if environment else None)


def check_memory(
    experiment: Experiment, environment: Environment | None, hardware: Hardware
) -> None:
    """RequestError, with the bytes computed and the limit, where a run cannot fit. A limit that is
    not known refuses nothing.

    What is only compiled allocates nothing: whether it fits its target is up to the compiler.
    """
    target = experiment.place
    if target.is_absent:
        return
    need = memory_need(experiment)
    on_host = not target.is_cluster and (target.is_simulated or hardware.accelerator is None)
    host_need = need.host_bytes + (need.all_device_bytes if on_host else 0)
    limit = hardware.available_bytes
    if limit is not None and host_need > limit and not target.is_cluster:
        share = f" on {experiment.device_count} simulated devices" if on_host else ""
        if on_host and need.host_bytes and need.all_device_bytes:  # which the picture has alone
            parts = map(bytes_text, (need.all_device_bytes, need.host_bytes))
            share += " ({} of shards, {} to draw and check them)".format(*parts)
        raise _too_large(
            experiment, f"{bytes_text(host_need)}{share}", f"{bytes_text(limit)} free here"
        )
    limits = (
        [device.memory_bytes for device in environment.devices if device.memory_bytes]
        if environment
        else []
    )
    if not on_host and limits and need.device_bytes > min(limits):
        limit = f"{bytes_text(min(limits))} of one device"
        raise _too_large(experiment, bytes_text(need.device_bytes), limit)


def _too_large(experiment: Experiment, need: str, limit: str) -> Exception:
    if experiment.what.is_of_machine:
        value = f"{experiment.workload} over {experiment.device_count} devices"
        fix = "use a smaller largest, or fewer devices"
    elif experiment.what.is_small_program:
        sizes = _program_sizes(experiment)
        value, fix = f"program {_program(experiment)} with {_named(sizes)}", "use smaller sizes"
    else:
        value = f"{experiment.workload} with {_named(dict(experiment.dims))}"
        fix = f"use {' or '.join(_less(experiment))}"
    return refuse(value, f"needs {need}, more than the {limit}", fix)


def _named(sizes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _less(experiment: Experiment) -> list[str]:
    """Returns what would need less memory."""
    strategies = len({name for each in experiment.members for name in each.experiment.strategies})
    parts = [
        count
        for each in experiment.members
        for name in each.experiment.strategies
        if not STRATEGIES[name].is_single_device
        for count in _parts(each.experiment, name)
    ]
    is_replicated = any(0 < count < experiment.device_count for count in parts)
    return (
        ["smaller dims"]
        + ["fewer strategies"] * (strategies > 1)
        + ["more sharding"] * is_replicated
    )


def _program(experiment: Experiment) -> str:
    return str(dict(experiment.options).get("program", ""))


def _program_sizes(experiment: Experiment) -> dict[str, int]:
    chosen = dict(experiment.options)
    return {
        name: int(chosen.get(name, size.default))
        for name, size in program_sizes(_program(experiment)).items()
    }

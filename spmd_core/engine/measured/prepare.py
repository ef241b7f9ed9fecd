"""Brings one strategy to the point where it can be timed: lowered, compiled, run once and reported."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import jax
from jax.sharding import Mesh

from spmd_core.base import Inexpressible
from spmd_core.engine.devices import JaxDevice, check_room, coordinates
from spmd_core.engine.exported.lower import complete, quoted_files
from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import Lowered, execute, look_into, lower
from spmd_core.engine.measured import attached
from spmd_core.engine.measured.place import (
    array_report,
    check_function,
    named_results,
    result_shapes,
)
from spmd_core.engine.members import MEET_S, alike, nothing, on_host, shared_failure
from spmd_core.engine.operands import Operands
from spmd_core.engine.shardings import blamed, dump_options, judged_of, names_of
from spmd_core.engine.stderr import captured, compiler_warnings
from spmd_core.engine.timing import Timed, block
from spmd_core.engine.trial import Trial, device_order
from spmd_core.experiment import Experiment
from spmd_core.facts import StoredFact
from spmd_core.machine import Coordinates, dump_folder
from spmd_core.pictures import NAME as TIMELINE, timeline_of, to_text
from spmd_core.program import (
    HloError,
    Reasons,
    file_name,
    fingerprint,
    read_collectives,
    with_warnings,
)
from spmd_core.results import Failure, MemoryBytes
from spmd_core.roofline import operations_of
from spmd_core.script import program_text
from spmd_core.time import Useful
from spmd_core.workloads import STRATEGIES

Tell = Callable[[str], None]


def prepare(trial: Trial, experiment: Experiment, operands: Operands, tell: Tell) -> None:
    """Fill in `trial` up to its first run. `operands` is filled by the first strategy and shared by
    the others.
    """
    kind = STRATEGIES[trial.strategy]
    if kind.is_map and not kind.is_single_device and jax.process_count() > 1:
        raise Inexpressible(
            f"{trial.strategy} maps over the devices of one process: on several hosts use auto or shard_map"
        )
    text = program_text(experiment, trial.strategy)
    trial.texts = {"program": text}
    names = execute(text, file_name(experiment.workload, trial.strategy))
    names = complete(names, experiment)
    if trial.strategy == "as_written":
        _run_as_written(trial, names, tell)
        return
    if not kind.is_single_device:
        _check_processes(names.get("mesh"))
    if not operands:
        operands.update(names["make_operands"]())
    if kind.is_single_device and jax.process_index() > 0:
        trial.program = Timed(trial.strategy, nothing, ())  # the first member has the device
        return
    if trial.strategy == "place":
        _place(trial, names, operands, tell)
    else:
        _compile(trial, experiment, names, operands, tell)


def _check_processes(mesh: Mesh | None) -> None:
    """Inexpressible where a process has no device of the mesh: it could hold no part of an array."""
    if mesh is None or jax.process_count() == 1:
        return
    taken = len({device.process_index for device in mesh.devices.flat})
    if taken < jax.process_count():
        raise Inexpressible(
            f"the mesh has devices of {taken} of the {jax.process_count()} processes: use a mesh "
            f"of all {jax.device_count()} devices"
        )


class FailedElsewhere(Exception):
    """Another member has failed, and so no member begins with the first run."""

    def __init__(self, failure: Failure):
        super().__init__(failure.message)
        self.failure = failure


def meet(trial: Trial, took_s: float) -> Failure | None:
    """Wait until every member is at the first run of a program of all, or has failed before it, and
    return what failed. A member that took long waits longer, since the others may do so too.
    """
    if trial.has_met or STRATEGIES[trial.strategy].is_single_device:
        return trial.failure
    trial.has_met = True
    return shared_failure(trial.failure, MEET_S + took_s)


def _options(experiment: Experiment) -> dict[str, object]:
    """Options of the compiler: of a run that is traced on GPUs no command buffers, in which a
    profiler loses the instructions of kernels (openxla/xprof issue 3070).
    """
    traced = experiment.what.is_traceable and experiment.option("trace")
    is_gpu = jax.default_backend() == "gpu"
    return {"xla_gpu_enable_command_buffer": ""} if traced and is_gpu else {}


def _compile(
    trial: Trial,
    experiment: Experiment,
    names: Mapping[str, Any],
    operands: Operands,
    tell: Tell,
) -> None:
    mesh, order = device_order(names)
    if experiment.what.source is not None:
        check_function(experiment, names, operands)
    lowered = _lowered(trial, experiment, names, operands, tell)
    if lowered.compiled is None:
        trial.collectives = ()  # on one device
    else:
        trial.compiled, trial.lowered = lowered.compiled, lowered.lowered
        trial.memory_bytes = memory_bytes(lowered.compiled)
        trial.fingerprint = f"{fingerprint(lowered.compiled.as_text())} {len(order)}"
        price(trial, experiment, lowered.compiled, order)
        check_room(lowered.compiled, max(1, len(order) // jax.process_count()))
    with _together(trial):
        for name, array in zip(operands, lowered.arguments, strict=True):
            trial.operands[name] = array_report(array, order, mesh)
        output = _first_run(trial, lambda: lowered.call(*lowered.arguments), tell)
        shapes = result_shapes(experiment, trial.strategy)
        for name, array in named_results(experiment, output, shapes).items():
            trial.outputs[name] = array_report(array, order, mesh)
            trial.to_check[name] = on_host(array, experiment.shape(name))
    trial.program = Timed(trial.strategy, lowered.call, lowered.arguments)
    if lowered.unsharded is not None:
        trial.from_unsharded = Timed(
            f"{trial.strategy} from unsharded", lowered.call, lowered.unsharded
        )


def _lowered(
    trial: Trial,
    experiment: Experiment,
    names: Mapping[str, Any],
    operands: Operands,
    tell: Tell,
) -> Lowered:
    """The program, lowered and compiled; its text, its collectives and what its compile wrote."""
    look = look_into if STRATEGIES[trial.strategy].is_map else lower
    with dump_folder() as folder:
        options = _options(experiment) | dump_options(experiment, trial.strategy, folder)
        lowered = look(trial.texts["program"], names, operands, tell, options or None)
        trial.judged = judged_of(experiment, folder)
        trial.texts, trial.warnings = lowered.texts, lowered.warnings
        trial.phases_s = lowered.seconds
        if lowered.compiled is not None:
            read_program(trial, experiment, lowered.compiled, device_order(names)[1], folder)
    return lowered


def read_program(
    trial: Trial, experiment: Experiment, compiled: Any, order: list[JaxDevice], folder: Path
) -> None:
    """The collectives and operations of a compiled program, with what its compile has written to a
    folder. What cannot be read is reported and left unknown, never counted as no communication.
    """
    file = quoted_files(experiment, trial.strategy)
    try:
        module = read_module(compiled)
        mesh = () if STRATEGIES[trial.strategy].is_single_device else experiment.mesh
        used = compiled.runtime_executable().local_devices() if jax.process_count() == 1 else order
        positions = tuple(map(order.index, used))
        trial.operations = operations_of(module)
        collectives = read_collectives(
            module,
            mesh,
            file=file,
            positions=positions,
            devices=tuple(device.id for device in order),
            places=places_of(order),
            reasons=Reasons(experiment, trial.strategy, module),
        )
        collectives = with_warnings(collectives, trial.warnings, mesh)
        names = names_of(experiment, trial.strategy)
        trial.collectives = blamed(collectives, module, mesh, folder, names)
    except HloError as error:
        trial.warnings = (*trial.warnings, f"the collectives of this program are unknown: {error}")


def places_of(order: list[JaxDevice]) -> tuple[Coordinates, ...]:
    """Coordinates of the devices in order; none where the platform has none."""
    return (
        coordinates(order)
        if all(getattr(device, "coords", None) is not None for device in order)
        else ()
    )


def price(trial: Trial, experiment: Experiment, compiled: Any, order: list[JaxDevice]) -> None:
    """The cost model's estimate of the program, where the devices are TPUs or GPUs."""
    mesh = () if STRATEGIES[trial.strategy].is_single_device else experiment.mesh
    estimate = attached.price(
        mesh,
        compiled,
        order,
        jax.devices(),
        trial.collectives,
        lambda *walk: trial.texts.update({TIMELINE: to_text(timeline_of(*walk))}),
        Useful(int(experiment.what.flops(experiment.sizes))),
    )
    if isinstance(estimate, str):
        trial.facts.append(StoredFact(kind="not predicted", values={"why": estimate}))
    else:
        trial.prediction = estimate
        if estimate is not None and estimate.collectives:
            trial.collectives = estimate.collectives


def _place(trial: Trial, names: Mapping[str, Any], operands: Operands, tell: Tell) -> None:
    mesh, order = device_order(names)
    with _together(trial):
        array = _first_run(trial, names["program"], tell)
        trial.outputs["array"] = array_report(array, order, mesh)
        trial.to_check["array"] = on_host(array, array.shape)
    trial.program = Timed(
        trial.strategy, jax.device_put, (operands["array"], names["placed"]["array"])
    )


def _run_as_written(trial: Trial, names: Mapping[str, Any], tell: Tell) -> None:
    mesh, order = device_order(names)
    with _together(trial):
        with captured() as log:
            returned = _first_run(trial, lambda: names["program"](mesh), tell)
        trial.warnings = compiler_warnings(log[0])
        for name, value in returned.items():
            if isinstance(value, jax.Array):
                trial.outputs[name] = array_report(value, order, mesh)
            else:
                trial.printed[name] = str(value)


@contextmanager
def _together(trial: Trial) -> Iterator[None]:
    """What exchanges data with the other members, unless one of them has failed before."""
    if failure := meet(trial, sum(trial.phases_s.values())):
        raise FailedElsewhere(failure)
    with alike(not STRATEGIES[trial.strategy].is_single_device):
        yield


def _first_run(trial: Trial, call: Callable[[], Any], tell: Tell) -> Any:
    tell("first_run")
    start = perf_counter()
    output = block(call())
    trial.phases_s["first_run"] = perf_counter() - start
    return output


def memory_bytes(compiled: Any) -> MemoryBytes | None:
    """The compiler's account of memory per device; None where the platform gives none.

    The peak is what is allocated while the program runs: operands, results and temporaries, donated
    operands once. XLA's own leaves out temporaries on CPU, and counts vector memory on TPUs.
    XLA's CPU compiler counts host memory as device memory: arrays in pinned_host are subtracted.
    """
    stats = compiled.memory_analysis()
    if stats is None:
        return None
    host = (
        stats.host_argument_size_in_bytes
        + stats.host_output_size_in_bytes
        + stats.host_temp_size_in_bytes
    )
    argument, output = stats.argument_size_in_bytes, stats.output_size_in_bytes
    temp, donated = stats.temp_size_in_bytes, stats.alias_size_in_bytes
    if not host:
        operands, results, reused = _on_host(compiled)
        both = min(reused, donated)
        host = operands + results - both
        argument, output, donated = argument - operands, output - results, donated - both
    return MemoryBytes(
        argument=argument,
        output=output,
        temp=temp,
        peak=(argument + output + temp - donated) or None,
        host=host,
    )


def _on_host(compiled: Any) -> tuple[int, int, int]:
    """Bytes per device in pinned_host: of arguments, of results, of both that is donated."""
    shardings = jax.tree.leaves(compiled.input_shardings, is_leaf=lambda each: each is None)
    arguments = [
        (_shard_bytes(each, sharding), each.donated)
        for each, sharding in zip(jax.tree.leaves(compiled.args_info), shardings, strict=True)
    ]
    results = sum(_shard_bytes(each, each.sharding) for each in jax.tree.leaves(compiled.out_info))
    donated = sum(size for size, is_donated in arguments if is_donated)
    return sum(size for size, _ in arguments), results, min(donated, results)


def _shard_bytes(array: Any, sharding: Any) -> int:
    """Bytes of a shard in pinned_host; 0 in another memory, and of an argument that is not used."""
    if sharding is None or sharding.memory_kind != "pinned_host":
        return 0
    return math.prod(sharding.shard_shape(array.shape)) * array.dtype.itemsize

"""Predicts an experiment on an absent topology: compiles every strategy, prices what the compiler
made of it; executes nothing.
"""

import resource
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

import jax

from spmd_core.base import LabError
from spmd_core.engine.absent.early import STAGES, Scheduled, compile_known
from spmd_core.engine.absent.topology import (
    Ahead,
    compiled_program,
    describe,
    explain,
    lower_experiment,
    scheduled_program,
)
from spmd_core.engine.codeless import without_code
from spmd_core.engine.hlo import read_module
from spmd_core.engine.lower import RECORD, Steps, compile_with, forget_now_and_then
from spmd_core.engine.shardings import (
    blamed,
    compiler_options,
    judged_of,
    names_of,
    of_folder,
)
from spmd_core.engine.stderr import captured, compiler_warnings
from spmd_core.engine.trial import failure_of
from spmd_core.experiment import Experiment, Row, own_flags
from spmd_core.facts import PROGRAM, Collective, Prediction
from spmd_core.fields import Mesh
from spmd_core.machine import GPU_OPTIONS, Coordinates, dump_folder, get_topology, parse_target
from spmd_core.pictures import NAME as TIMELINE, timeline_of, to_text
from spmd_core.plan import OPTIONAL_FLAGS
from spmd_core.program import (
    NAME as SHARDINGS,
    Module,
    Reasons,
    fingerprint,
    parse_module,
    read_collectives,
    with_specs,
    with_warnings,
)
from spmd_core.results import (
    Environment,
    MemoryBytes,
    Phases,
    Result,
    StrategyResult,
    compare_predicted,
    estimates,
)
from spmd_core.roofline import on_topology
from spmd_core.runs import Event, Finished, Phase, Texts
from spmd_core.script import program_text
from spmd_core.time import CompiledText, estimate_step, of_experiment, versions
from spmd_core.workloads import STRATEGIES

# a worker that once needed this much is renewed: a compiler gives little of it back
LARGE_BYTES = 2 * 2**30
_KERNEL = "tpu_custom_call"

Emit = Callable[[Event], None]


def predict_experiment(
    experiment: Experiment,
    run_id: str,
    environment: Environment,
    emit: Emit,
    cancelled: Callable[[], bool],
    clock: Callable[[], float] = perf_counter,
) -> Finished:
    """Predict it under each of its strategies; `partial` where `cancelled` came first. A failure
    of a strategy stays its own. `clock`: seconds, which stand while the process is paused.
    """
    if experiment.what.has_formula:
        return Finished(result=_by_formula(experiment, run_id, environment))
    outcomes = _outcomes(experiment, emit, cancelled, clock)
    forget_now_and_then()
    partial = any(outcome.status == "cancelled" for outcome in outcomes.values())
    result = Result(
        run=run_id,
        experiment=experiment,
        environment=environment,
        strategies=outcomes,
        partial=partial,
        environments=_environments(experiment),
    )
    if experiment.variants:
        result = result.model_copy(update={"comparison": compare_predicted(estimates(result))})
    return Finished(result=result, renew_worker=_peak_bytes() > LARGE_BYTES)


def with_predicted(finished: Finished, emit: Emit, cancelled: Callable[[], bool]) -> Finished:
    """What was measured of a study, with those of its rows that are on absent targets."""
    measured = finished.result
    experiment = measured.experiment
    outcomes = measured.strategies | _outcomes(experiment, emit, cancelled)
    partial = any(outcome.status == "cancelled" for outcome in outcomes.values())
    result = measured.model_copy(
        update={
            "strategies": {row.key: outcomes[row.key] for row in experiment.rows_once},
            "partial": measured.partial or partial,
            "environments": _environments(experiment),
        }
    )
    result = result.model_copy(update={"predicted": compare_predicted(estimates(result))})
    return Finished(
        result=result, renew_worker=finished.renew_worker or _peak_bytes() > LARGE_BYTES
    )


def _outcomes(
    experiment: Experiment,
    emit: Emit,
    cancelled: Callable[[], bool],
    clock: Callable[[], float] = perf_counter,
) -> dict[str, StrategyResult]:
    outcomes: dict[str, StrategyResult] = {}
    for row in experiment.rows_once:
        if row.experiment.place.is_absent:
            with dump_folder() as folder:
                if cancelled():
                    outcomes[row.key] = StrategyResult(status="cancelled")
                elif (plan := row.experiment.plan) and plan.stages > 1:
                    outcomes[row.key] = _outcome(estimate_step(plan), Phases(), ())
                else:
                    outcomes[row.key] = _predict(row, experiment, emit, folder, clock)
    return outcomes


def _environments(experiment: Experiment) -> dict[str, Environment]:
    """The environments of a study's absent targets, beside its own; those that cannot be described
    are left out, and their rows have the error.
    """
    environments: dict[str, Environment] = {}
    for target in dict.fromkeys(each.experiment.target for each in experiment.members):
        if target != experiment.target and parse_target(target).is_absent:
            with suppress(LabError):
                environments[target] = describe(target)
    return environments


def _by_formula(experiment: Experiment, run_id: str, environment: Environment) -> Result:
    """The cost model's estimate without compiling anything: a sweep of collectives."""
    strategy = experiment.strategies[0]
    try:
        outcome = StrategyResult(status="ok", points=on_topology(experiment))
    except LabError as error:
        outcome = StrategyResult(status="error", error=failure_of(error))
    return Result(
        run=run_id,
        experiment=experiment,
        environment=environment,
        strategies={strategy: outcome},
    )


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _predict(
    row: Row, study: Experiment, emit: Emit, folder: Path, clock: Callable[[], float]
) -> StrategyResult:
    experiment, strategy = row.experiment, row.strategy
    steps = Steps(lambda phase: emit(Phase(phase=phase, strategy=row.key)), clock=clock)
    started, texts, warnings = clock(), {}, ()
    try:
        ahead = lower_experiment(experiment, strategy, steps)
        texts = ahead.texts | {"stablehlo": ahead.lowered.as_text(debug_info=not ahead.is_step)}
        flags = _flags(experiment, study)
        answer, warnings = _compile(experiment, strategy, ahead, steps, folder, flags)
        texts["hlo"] = answer.text
        if not STRATEGIES[strategy].is_single_device:
            answer, texts[SHARDINGS] = _with_shardings(answer, experiment, strategy, folder)
        judged = judged_of(experiment, folder)
        facts = _facts(row, study, steps, answer.text) | {"elapsed_s": clock() - started}
        steps.phase("price")
        again = {"recomputed": judged.recomputed_flops, "repeated in a map": judged.mapped_flops}
        answer = replace(answer, facts=facts, again=again)
        prediction = of_experiment(
            experiment, answer, lambda *walk: texts.update({TIMELINE: to_text(timeline_of(*walk))})
        )
        if STRATEGIES[strategy].is_single_device:
            prediction = prediction.on_one_of(get_topology(experiment.place).chips)
    except Exception as error:  # of tracing, the compiler, the reading: it is the strategy's result
        failure = failure_of(error)
        if not isinstance(error, LabError):
            failure = failure.model_copy(update={"message": explain(failure.message)})
        return StrategyResult(
            status="error", error=failure, phases_s=Phases(**steps.seconds), warnings=warnings
        )
    finally:
        emit(Texts(strategy=row.key, texts={name: text for name, text in texts.items() if text}))
    return _outcome(prediction, Phases(**steps.seconds), warnings, **dict(judged.against))


def _outcome(
    prediction: Prediction, phases: Phases, warnings: tuple[Any, ...], **against: Any
) -> StrategyResult:
    return StrategyResult(
        status="ok",
        phases_s=phases,
        predicted_s=prediction.predicted_s,
        prediction=prediction,
        **against,
        memory_bytes=_memory(prediction),
        collectives=prediction.collectives if prediction.fits else None,
        warnings=warnings,
    )


def _flags(experiment: Experiment, study: Experiment) -> dict[str, object]:
    """What a program is compiled with beside the flags that the TPU compiler was loaded with: for
    GPUs all of its flags.
    """
    if experiment.place.is_gpu and experiment.plan:
        return {name: _value(text) for name, text in experiment.plan.flags.items()}
    return dict(own_flags(experiment, study))


def _value(text: str) -> object:
    """The value of a flag as XLA's own options take it."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isdigit() else text


def _with_shardings(
    answer: CompiledText, experiment: Experiment, strategy: str, folder: Path
) -> tuple[CompiledText, str]:
    names = names_of(experiment, strategy)
    shardings = of_folder(folder, experiment.mesh, answer.collectives or (), names)
    collectives = with_specs(answer.collectives or (), shardings)
    return replace(answer, collectives=collectives), shardings.model_dump_json()


def _facts(row: Row, study: Experiment, steps: Steps, text: str) -> dict[str, object]:
    """Seconds, memory and versions of a compile; in a study also which program it is."""
    facts: dict[str, object] = {
        "lower_s": sum(steps.seconds.get(name, 0.0) for name in ("trace", "lower")),
        "compile_s": steps.seconds["compile"],
        "peak_rss_bytes": _peak_bytes(),
        "versions": versions(program_text(row.experiment, row.strategy)),
    }
    return facts | {PROGRAM: fingerprint(text)} if text and len(study.rows) > 1 else facts


def _compile(
    experiment: Experiment,
    strategy: str,
    ahead: Ahead,
    steps: Steps,
    folder: Path,
    flags: dict[str, object],
) -> tuple[CompiledText, tuple[str, ...]]:
    """The compiled program, and what the compiler warned of; memory that ran out is an answer, any
    other refusal passes. A training step is compiled until it is scheduled.
    """
    topology = get_topology(experiment.target)
    # a training step's attention on GPUs is a call that only runs there
    mocked = {"xla_gpu_mock_custom_calls": True} if ahead.is_step else {}
    gpu_options = GPU_OPTIONS | mocked if topology.chip.is_gpu else {}
    missing: tuple[str, ...] = ()
    with captured() as log:
        begun = steps.clock()
        try:
            compiled, missing = _compiled(ahead, steps, folder, flags, gpu_options)
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            return CompiledText(error_kind=type(error).__name__, error=str(error)), ()
        finally:
            steps.seconds["compile"] = steps.clock() - begun
    if isinstance(compiled, Scheduled):
        answer = scheduled_program(ahead.lowered, compiled, ahead.mesh, topology)
        module = parse_module(compiled.text)
    else:
        answer = compiled_program(ahead.lowered, compiled, ahead.mesh, topology)
        module = read_module(compiled)
    collectives = _collectives(experiment, strategy, ahead, module, answer.devices)
    names, mesh = names_of(experiment, strategy), _mesh(experiment, strategy)
    collectives = blamed(collectives, module, mesh, folder, names)
    warnings = (*missing, *compiler_warnings(log[0]))
    return replace(answer, collectives=with_warnings(collectives, warnings, mesh)), warnings


def _compiled(
    ahead: Ahead,
    steps: Steps,
    folder: Path,
    flags: dict[str, object],
    gpu_options: dict[str, object],
) -> tuple[Any, tuple[str, ...]]:
    if gpu_options and not ahead.is_step:
        options = compiler_options(folder) | gpu_options
        return steps("compile", lambda: compile_with(ahead.lowered, options)), ()
    given, optional = flags | gpu_options, OPTIONAL_FLAGS if gpu_options else ()
    has_code = bool(gpu_options)
    if not ahead.is_step:
        given = {"xla_dump_hlo_pass_re": STAGES + RECORD}
        has_code = _KERNEL in ahead.lowered.as_text()  # refused, if at all, with the code
    until = nullcontext if has_code else without_code
    return compile_known(ahead.lowered, folder, steps.phase, given, optional, until)


def _collectives(
    experiment: Experiment,
    strategy: str,
    ahead: Ahead,
    module: Module,
    places: tuple[Coordinates, ...],
) -> tuple[Collective, ...]:
    """What the program communicates; HloError where it cannot be read, never no communication."""
    reasons = None if ahead.is_step else Reasons(experiment, strategy, module)
    mesh = _mesh(experiment, strategy)
    devices = tuple(int(device.id) for device in ahead.mesh.devices.flat)
    return read_collectives(
        module, mesh, file=ahead.file, devices=devices, places=places, reasons=reasons
    )


def _mesh(experiment: Experiment, strategy: str) -> Mesh:
    return () if STRATEGIES[strategy].is_single_device else experiment.mesh


def _memory(prediction: Prediction) -> MemoryBytes:
    held = prediction.memory_bytes
    return MemoryBytes(
        argument=held.argument, output=held.output, temp=held.temp, peak=held.peak, host=held.host
    )

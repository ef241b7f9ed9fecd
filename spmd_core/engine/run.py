"""Runs an experiment: compiles every strategy, times them in shared rounds, checks them, and tells what happens on the way."""

from collections.abc import Callable
from functools import cache
from time import monotonic
from typing import Any

import jax
import numpy as np

from spmd_core.engine import devices, timing
from spmd_core.engine.lower import execute
from spmd_core.engine.prepare import prepare
from spmd_core.engine.report import strategy_result
from spmd_core.engine.trial import OUT_OF_MEMORY, Trial
from spmd_core.events import Event, Finished, Phase, Progress, Texts
from spmd_core.experiment import Experiment
from spmd_core.reference import Reference, compute_dtype, measure_error, reference, tolerance
from spmd_core.results import Environment, Result
from spmd_core.script import mesh_lines

PROGRESS_INTERVAL_S = 0.1
Emit = Callable[[Event], None]
Cancelled = Callable[[], bool]


def run_experiment(experiment: Experiment, run_id: str, environment: Environment, emit: Emit, cancelled: Cancelled) -> Finished:
    """Run it, and return its result; `partial` where `cancelled` said so first. A failure of a strategy stays its own."""
    _wake_compiler()
    trials = [Trial(strategy) for strategy in experiment.strategies]
    operands: dict[str, Any] = {}
    for trial in trials:
        if cancelled():
            break
        _prepare(trial, experiment, operands, emit)
    stopped = _sample(trials, experiment, emit, cancelled)
    emit(Phase(phase="check"))
    _check(trials, experiment, operands, environment)
    floors = _floors(experiment)
    results = {
        trial.strategy: strategy_result(trial, experiment, floors.get(trial.strategy, floors.get("mesh")), stopped) for trial in trials}
    measured = environment.model_copy(update={"load": devices.load(), "dispatch_floor_s": floors.get("mesh", floors.get("single"))})
    result = Result(
        run=run_id, experiment=experiment, environment=measured, strategies=results, partial=stopped, notes=environment.notes,
        )
    ran_out = any(trial.failure is not None and trial.failure.kind == OUT_OF_MEMORY for trial in trials)
    return Finished(result=result, renew_worker=ran_out)


@cache
def _wake_compiler() -> None:
    """Compile something once per process, so that no strategy's phases contain JAX's own start-up."""
    jax.jit(lambda value: value + 1).trace(np.float32(1)).lower().compile()


def _prepare(trial: Trial, experiment: Experiment, operands: dict[str, Any], emit: Emit) -> None:
    try:
        prepare(trial, experiment, operands, lambda phase: emit(Phase(phase=phase, strategy=trial.strategy)))
    except Exception as error:  # whatever a strategy raises is its result, kind and words; the others go on
        trial.fail(error)
    if trial.texts:
        emit(Texts(strategy=trial.strategy, texts=trial.texts))
    trial.texts = {}


def _sample(trials: list[Trial], experiment: Experiment, emit: Emit, cancelled: Cancelled) -> bool:
    """Warm up and take the rounds; whether it was cancelled before they were all done."""
    plan = experiment.timing
    sample_s = plan.min_seconds / plan.samples
    emit(Phase(phase="warm_up"))
    for trial in trials:
        if cancelled():
            return True
        try:
            for timed in trial.timed:
                timing.warm_up(timed, sample_s)
        except Exception as error:  # as in _prepare
            trial.fail(error)
    programs = [timed for trial in trials for timed in trial.timed]
    emit(Phase(phase="sample"))
    told = float("-inf")

    def after_round(done: int) -> None:
        nonlocal told
        if done == plan.samples or monotonic() - told >= PROGRESS_INTERVAL_S:
            told = monotonic()
            emit(Progress(done=done, of=plan.samples, medians_s=_medians(trials)))

    with timing.quiet():
        done = timing.sample_rounds(programs, plan.samples, seed=experiment.seed, cancelled=cancelled, after_round=after_round)
    for trial in trials:
        for timed in trial.timed:
            if timed.error is not None:
                trial.fail(timed.error)
                break
    return done < plan.samples


def _medians(trials: list[Trial]) -> dict[str, float]:
    return {trial.strategy: float(np.median(trial.program.samples_s)) for trial in trials if trial.program and trial.program.samples_s}


def _check(trials: list[Trial], experiment: Experiment, operands: dict[str, Any], environment: Environment) -> None:
    """Compare every result with the reference, computed once."""
    done = [trial for trial in trials if trial.to_check is not None and trial.failure is None]
    if not done:
        return
    dtype, note = compute_dtype(experiment, environment.platform)
    if experiment.workload == "array":
        expected = Reference(np.asarray(operands["array"], np.float64), None)
    else:
        expected = reference(experiment, operands)
    for trial in done:
        assert trial.to_check is not None
        trial.error = measure_error(expected, trial.to_check)
        trial.tolerance = 0.0 if experiment.workload == "array" else tolerance(experiment, dtype)
        trial.correct = trial.error.max_rel is not None and trial.error.max_rel <= trial.tolerance
        trial.to_check = None
        if note:
            trial.notes.append(note)
        if expected.rows is not None:
            trial.notes.append(f"compared with the reference on {len(expected.rows)} rows chosen by the seed")
        if not trial.correct:
            trial.notes.append("wrong values: not ranked")


def _floors(experiment: Experiment) -> dict[str, float]:
    """Dispatch floor in seconds of one device ("single"), and of the mesh ("mesh") where a strategy uses it."""
    floors = {}
    if "single" in experiment.strategies:
        floors["single"] = timing.dispatch_floor_s(None, jax.devices()[0])
    if set(experiment.strategies) - {"single"}:
        imports = "import jax\nimport numpy as np\nfrom jax.sharding import AxisType, Mesh\n"
        mesh = execute(imports + "\n".join(mesh_lines(experiment)) + "\n", "mesh.py")["mesh"]
        floors["mesh"] = timing.dispatch_floor_s(mesh, jax.devices()[0])
    return floors

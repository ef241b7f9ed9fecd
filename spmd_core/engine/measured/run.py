"""Runs an experiment: compiles every strategy, times them in shared rounds, checks them, and tells
what happens on the way.
"""

from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Any

import jax
import numpy as np

from spmd_core.engine import devices
from spmd_core.engine.lower import execute
from spmd_core.engine.measured import machine, timing
from spmd_core.engine.measured.check import Checker
from spmd_core.engine.measured.operands import Operands
from spmd_core.engine.measured.prepare import prepare
from spmd_core.engine.measured.report import strategy_result
from spmd_core.engine.measured.sample import Sampler, rankable_rounds
from spmd_core.engine.measured.train import Training
from spmd_core.engine.measured.trial import OUT_OF_MEMORY, Trial
from spmd_core.experiment.experiment import Experiment
from spmd_core.results import stats
from spmd_core.results.environment import Environment
from spmd_core.results.result import Result
from spmd_core.runs.events import Event, Finished, Phase, Texts
from spmd_core.script.program import mesh_lines
from spmd_core.words import runs as words
from spmd_core.workloads.strategies import ONE_DEVICE

RUNS_REMEMBERED = 10
_RUNS = count(1)
Emit = Callable[[Event], None]
Cancelled = Callable[[], bool]


def run_experiment(experiment: Experiment, run_id: str, environment: Environment, emit: Emit,
                   cancelled: Cancelled) -> Finished:
    """Run it, and return its result; `partial` where `cancelled` said so first. A failure of a
    strategy stays its own.
    """
    _wake_compiler()
    if experiment.what.is_of_machine:
        return machine.run(experiment, run_id, environment, emit, cancelled)
    trials = [Trial(strategy) for strategy in experiment.strategies]
    operands = Operands()
    checker = Checker(experiment, operands, environment.platform)
    sampler = Sampler(experiment, trials, emit, cancelled)
    for trial in trials:
        if cancelled():
            sampler.stopped = True
            break
        _prepare(trial, experiment, operands, emit)
        checker.check_if_large(trial)
    sampler.warm_up()
    sampler.measure()
    emit(Phase(phase="check"))
    for trial in trials:
        checker.check(trial)
    sampler.remeasure()
    if experiment.what.training.carried and experiment.option("steps") and not sampler.stopped:
        training = Training(experiment, trials, emit, cancelled)
        training.run()
        sampler.stopped = training.stopped
    floors = _floors(experiment)
    floor_s = floors.get("mesh", floors.get("single"))
    measured = environment.model_copy(
        update={"load": devices.load(), "dispatch_floor_s": floor_s})
    floor_of = {trial.strategy: floors.get("single" if trial.strategy in ONE_DEVICE else "mesh")
                for trial in trials}
    result = Result(
        run=run_id, experiment=experiment, environment=measured, partial=sampler.stopped,
        # which are about times, and a program as written has none
        notes=() if experiment.what.is_small_program else environment.notes,
        strategies={trial.strategy: strategy_result(trial, experiment, floor_of[trial.strategy], sampler.stopped) for trial in trials},
        comparison=stats.compare(rankable_rounds(trials), experiment.timing.samples))
    from spmd_core.advice.next import with_next  # 0.4 s, which no first median is to wait for

    result = with_next(_with_sentence(result))
    forget_now_and_then()
    return Finished(result=result, renew_worker=any(map(_ran_out, trials)))


def _ran_out(trial: Trial) -> bool:
    return trial.failure is not None and trial.failure.kind == OUT_OF_MEMORY


def _with_sentence(result: Result) -> Result:
    """With the answer in words, for those who read the JSON form alone."""
    if result.comparison is None:
        return result
    sentence = words.headline(result)
    comparison = result.comparison.model_copy(update={"sentence": sentence})
    return result.model_copy(update={"comparison": comparison})


@cache
def _wake_compiler() -> None:
    """Compile something once per process, so that no strategy's phases contain JAX's own start-up;
    and compile for real each time.
    """
    jax.config.update("jax_enable_compilation_cache", False)
    jax.jit(lambda value: value + 1).trace(np.float32(1)).lower().compile()


def forget_now_and_then() -> None:
    """Drop what JAX keeps of programs of past runs, about 5 MB a run; not each time, since the next
    run has to trace more.
    """
    if next(_RUNS) % RUNS_REMEMBERED == 0:
        jax.clear_caches()


def _prepare(trial: Trial, experiment: Experiment, operands: dict[str, Any], emit: Emit) -> None:
    try:
        prepare(trial, experiment, operands,
                lambda phase: emit(Phase(phase=phase, strategy=trial.strategy)))
    except Exception as error:  # whatever a strategy raises is its result, kind and words; the others go on
        trial.fail(error)
    if trial.texts:
        emit(Texts(strategy=trial.strategy, texts=trial.texts))
        trial.texts = {}  # megabytes, for large programs


def _floors(experiment: Experiment) -> dict[str, float]:
    """Dispatch floor in seconds of one device ("single"), and of the mesh ("mesh") where a strategy
    uses it.
    """
    floors = {}
    if set(experiment.strategies) & set(ONE_DEVICE):
        floors["single"] = timing.dispatch_floor_s(None, jax.devices()[0])
    if set(experiment.strategies) - set(ONE_DEVICE):
        imports = "import jax\nimport numpy as np\nfrom jax.sharding import AxisType, Mesh\n"
        mesh = execute(imports + "\n".join(mesh_lines(experiment)) + "\n", "mesh.py")["mesh"]
        floors["mesh"] = timing.dispatch_floor_s(mesh, jax.devices()[0])
    return floors

"""Runs an experiment: compiles every strategy, times them in shared rounds, checks them, and
reports progress.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from time import perf_counter

import jax
import numpy as np

from spmd_core.engine import devices, shardings, timing
from spmd_core.engine.ceilings import calibration
from spmd_core.engine.lower import execute, forget_now_and_then
from spmd_core.engine.measured import tracing
from spmd_core.engine.measured.check import Checker
from spmd_core.engine.measured.prepare import FailedElsewhere, meet, prepare
from spmd_core.engine.measured.sample import Sampler, rankable_rounds
from spmd_core.engine.measured.train import TrainingRun
from spmd_core.engine.members import (
    agreed,
    gathered,
    here,
    host_times,
    nothing,
    shared_failure,
)
from spmd_core.engine.operands import Operands
from spmd_core.engine.timing import Timed
from spmd_core.engine.trial import Trial, strategy_result
from spmd_core.experiment import Experiment, Row
from spmd_core.facts import SAME_PROGRAM, StoredFact
from spmd_core.results import OUT_OF_MEMORY, Environment, Result, StrategyResult, stats
from spmd_core.runs import Event, Finished, Measured, Phase, Texts
from spmd_core.script import mesh_lines
from spmd_core.workloads import STRATEGIES

Emit = Callable[[Event], None]
Cancelled = Callable[[], bool]


def run_experiment(
    experiment: Experiment, run_id: str, environment: Environment, emit: Emit, cancelled: Cancelled
) -> Finished:
    """Run it, and return its result; `partial` where `cancelled` came first. A failure of a
    strategy stays its own.
    """
    _wake_compiler()
    own, cancelled = cancelled, lambda: agreed(own())
    if experiment.what.is_of_machine:
        return calibration.run(experiment, run_id, environment, emit, cancelled)
    trials = [Trial(row.strategy, row) for row in _rows(experiment)]
    checkers = Checkers(environment.platform)
    sampler = Sampler(experiment, trials, emit, cancelled)
    for trial in trials:
        if cancelled():
            sampler.stopped = True
            break
        checker = checkers.of(trial)
        _prepare(trial, checker.operands, emit)
        checker.check_if_large(trial)
    _name_same_programs(trials)
    sampler.warm_up()
    sampler.measure()
    emit(Phase(phase="check"))
    for trial in trials:
        checkers.of(trial).check(trial)
    sampler.remeasure()
    for trial in trials:
        _slowest(trial, experiment.timing.samples)
    _train(experiment, trials, sampler)
    result = _result(experiment, run_id, environment, trials, sampler)
    forget_now_and_then()
    ran_out = any(each.failure and each.failure.kind == OUT_OF_MEMORY for each in trials)
    return Finished(result=result, renew_worker=ran_out)


def run_again(
    experiment: Experiment,
    run_id: str,
    environment: Environment,
    emit: Emit,
    cancelled: Cancelled,
    again: Sequence[str],
    process: int,
) -> Finished:
    """The planned rounds of some rows, that another process has measured and checked; what differs
    between processes is in the spread of the two. Nothing else of them is reported.
    """
    _wake_compiler()
    own, cancelled = cancelled, lambda: agreed(own())
    trials = [Trial(row.strategy, row) for row in _rows(experiment) if row.key in again]
    checkers = Checkers(environment.platform)
    sampler = Sampler(experiment, trials, emit, cancelled, process)
    for trial in trials:
        if not cancelled():
            _prepare(
                trial,
                checkers.of(trial).operands,
                lambda event: None if isinstance(event, Texts) else emit(event),
            )
    sampler.warm_up()
    sampler.measure_again()
    for trial in trials:
        _slowest(trial, experiment.timing.samples)
    result = Result(
        run=run_id,
        experiment=experiment,
        environment=environment,
        strategies={trial.key: _timed(trial) for trial in trials},
        partial=sampler.stopped,
    )
    return Finished(result=result)


def _name_same_programs(trials: Sequence[Trial]) -> None:
    """Note of each row the first one that was compiled to the same program, if any."""
    first: dict[str, str] = {}
    for trial in trials:
        if trial.fingerprint and trial.failure is None:
            row = first.setdefault(trial.fingerprint, trial.key)
            if row != trial.key:
                trial.facts.append(StoredFact(kind=SAME_PROGRAM, values={"row": row}))


def _slowest(trial: Trial, planned: int) -> None:
    """Keep the rounds of the member that took longest, and each one's median."""
    if jax.process_count() == 1:
        return
    program = trial.program
    own = program.rounds if program and program.call is not nothing else []
    sent = gathered((*here(), own))
    trial.hosts = host_times(
        [
            (host, count, stats.median_s(rounds[:planned]) if rounds else 0.0)
            for host, count, rounds in sent
        ]
    )
    if program and trial.hosts:
        slowest = max(trial.hosts, key=lambda each: each.median_s).process
        program.rounds = [tuple(turns) for turns in sent[slowest][2]]


def _timed(trial: Trial) -> StrategyResult:
    return StrategyResult(
        status="error" if trial.failure else "ok",
        error=trial.failure,
        turns_s=tuple(trial.program.rounds) if trial.program else (),
    )


def _rows(experiment: Experiment) -> list[Row]:
    """The rows that are measured: those of a study that are on an absent target are predicted."""
    return [row for row in experiment.rows_once if not row.experiment.place.is_absent]


def _train(experiment: Experiment, trials: Sequence[Trial], sampler: Sampler) -> None:
    """The steps of a training workload, where some are requested: of each variant in turn."""
    if not experiment.what.training.carried:
        return
    for each in experiment.members:
        if each.experiment.place.is_absent:
            continue
        if each.experiment.option("steps") and not sampler.stopped:
            own = [trial for trial in trials if trial.row and trial.row.variant == each.name]
            training = TrainingRun(each.experiment, own, sampler.emit, sampler.cancelled)
            training.run()
            sampler.stopped = training.stopped


def _result(
    experiment: Experiment,
    run_id: str,
    environment: Environment,
    trials: Sequence[Trial],
    sampler: Sampler,
) -> Result:
    floors, rows = Floors(min(timing.FLOOR_ROUNDS, experiment.timing.samples)), _rows(experiment)
    floor_of = {row.key: floors.of(row) for row in rows}
    on_mesh = [floor_of[row.key] for row in rows if not STRATEGIES[row.strategy].is_single_device]
    measured = environment.model_copy(
        update={
            "load": devices.load(),
            "dispatch_floor_s": next(iter([*on_mesh, *floor_of.values()])),
        }
    )
    result = partial(_of_trials, experiment, run_id, measured, trials, floor_of, sampler)
    if experiment.what.is_traceable and experiment.option("trace") and not sampler.stopped:
        # a profiler can end the process (jax issue 40260): what was measured is sent before
        emit = sampler.emit
        tracing.trace(trials, emit, sampler.cancelled, lambda: emit(Measured(result=result())))
    if experiment.what.is_traceable and experiment.option("shardings") and not sampler.stopped:
        shardings.read(trials, experiment, sampler.emit, sampler.cancelled)
    return result()


def _of_trials(
    experiment: Experiment,
    run_id: str,
    environment: Environment,
    trials: Sequence[Trial],
    floors: Mapping[str, float],
    sampler: Sampler,
) -> Result:
    """What the trials have now; `floors` are dispatch floors by row."""
    result = Result(
        run=run_id,
        experiment=experiment,
        environment=environment,
        partial=sampler.stopped,
        strategies={
            row.key: strategy_result(trial, row.experiment, floors[row.key], sampler.stopped)
            for row, trial in zip(_rows(experiment), trials, strict=True)
        },
        comparison=stats.compare(
            rankable_rounds(trials),
            experiment.timing.samples,
            margin=experiment.timing.margin,
            has_looks=bool(sampler.looks),
        ),
        looks=sampler.looks,
    )
    # that of a single device runs on one host alone
    most = max((len(each.hosts) for _, each in result.ordered), default=0)
    fastest = next((each for _, each in result.ordered if len(each.hosts) == most > 0), None)
    return result.model_copy(update={"hosts": fastest.hosts}) if fastest else result


@cache
def _wake_compiler() -> None:
    """Compile something once per process, so that no strategy's phases contain JAX's own start-up;
    and compile for real each time.
    """
    jax.config.update("jax_enable_compilation_cache", False)
    jax.jit(lambda value: value + 1).trace(np.float32(1)).lower().compile()


def _prepare(trial: Trial, operands: Operands, emit: Emit) -> None:
    assert trial.row is not None
    since = perf_counter()
    try:
        prepare(
            trial,
            trial.row.experiment,
            operands,
            lambda phase: emit(Phase(phase=phase, strategy=trial.key)),
        )
    except FailedElsewhere as error:
        trial.stop(error.failure)
    except (
        Exception
    ) as error:  # whatever a strategy raises is its result, kind and words; the others go on
        trial.fail(error)
        trial.failure = meet(trial, perf_counter() - since)
    _fail_together(trial)
    if trial.texts:
        emit(Texts(strategy=trial.key, texts=trial.texts))
        trial.texts = {}  # megabytes, for large programs


def _fail_together(trial: Trial) -> None:
    if (failure := shared_failure(trial.failure)) and failure != trial.failure:
        trial.stop(failure)
    if agreed(trial.from_unsharded is not None) and trial.from_unsharded is None:
        trial.from_unsharded = Timed(f"{trial.strategy} from unsharded", nothing, ())


class Checkers:
    """The operands and the reference of each trial: one for all variants that have the same."""

    def __init__(self, platform: str) -> None:
        self._platform = platform
        self._operands: dict[tuple[object, ...], Operands] = {}
        self._known: dict[tuple[object, ...], Checker] = {}

    def of(self, trial: Trial) -> Checker:
        """What judges a trial; its `operands` are drawn once."""
        assert trial.row is not None
        experiment = trial.row.experiment
        drawn = experiment.dtype, experiment.options
        key = *drawn, experiment.device_count
        if key not in self._known:
            operands = self._operands.setdefault(drawn, Operands())
            self._known[key] = Checker(experiment, operands, self._platform)
        return self._known[key]


class Floors:
    """Dispatch floors in seconds: of one device, and of each mesh that a row uses."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._known: dict[tuple[str, ...], float] = {}

    def of(self, row: Row) -> float:
        """What any program of a row's devices costs at least."""
        lines = (
            () if STRATEGIES[row.strategy].is_single_device else tuple(mesh_lines(row.experiment))
        )
        if lines not in self._known:
            mesh = None
            if lines:
                imports = (
                    "import jax\nimport numpy as np\nfrom jax.sharding import AxisType, Mesh\n"
                )
                mesh = execute(imports + "\n".join(lines) + "\n", "mesh.py")["mesh"]
            self._known[lines] = timing.dispatch_floor_s(mesh, jax.devices()[0], self._rounds)
        return self._known[lines]

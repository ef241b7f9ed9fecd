"""Compiles an experiment for the devices that are here and executes nothing: what its programs
communicate and the memory that they take.
"""

from collections.abc import Callable

from spmd_core.base import Inexpressible
from spmd_core.engine.exported.lower import complete
from spmd_core.engine.lower import Steps, compile_with, execute, forget_now_and_then, structs
from spmd_core.engine.measured.prepare import memory_bytes, price, read_program
from spmd_core.engine.shardings import dump_options, judged_of
from spmd_core.engine.stderr import captured, compiler_warnings
from spmd_core.engine.trial import Trial, device_order, strategy_result
from spmd_core.experiment import Experiment
from spmd_core.machine import dump_folder
from spmd_core.program import file_name
from spmd_core.results import Environment, Result
from spmd_core.runs import Event, Finished, Phase
from spmd_core.script import program_text
from spmd_core.workloads import STRATEGIES


def compile_experiment(
    experiment: Experiment,
    run_id: str,
    environment: Environment,
    emit: Callable[[Event], None],
    cancelled: Callable[[], bool],
) -> Finished:
    """Compile every strategy; `partial` where `cancelled` came first. A failure of a strategy
    stays its own. No text is sent: the run that executes a program leaves its texts.
    """
    trials = []
    for strategy in experiment.strategies:
        trial = Trial(strategy)
        if not cancelled():
            trials.append(trial)
            try:
                _compile(trial, experiment, emit)
            except Exception as error:  # whatever a strategy raises is its result
                trial.fail(error)
    outcomes = {trial.strategy: strategy_result(trial, experiment, None, False) for trial in trials}
    forget_now_and_then()
    partial = len(outcomes) < len(experiment.strategies)
    return Finished(
        result=Result(
            run=run_id,
            experiment=experiment,
            environment=environment,
            strategies=outcomes,
            partial=partial,
        )
    )


def _compile(trial: Trial, experiment: Experiment, emit: Callable[[Event], None]) -> None:
    if STRATEGIES[trial.strategy].is_map:
        raise Inexpressible(
            f"{trial.strategy} is called, not compiled ahead of time: use auto or shard_map"
        )
    steps = Steps(lambda phase: emit(Phase(phase=phase, strategy=trial.strategy)))
    text = program_text(experiment, trial.strategy)
    names = execute(text, file_name(experiment.workload, trial.strategy))
    names = complete(names, experiment)
    _, order = device_order(names)
    shapes = structs(experiment, names)
    with dump_folder() as folder:
        options = dump_options(experiment, trial.strategy, folder) or None
        with captured() as log:
            traced = steps("trace", lambda: names["program"].trace(*shapes))
            lowered = steps("lower", traced.lower)
            program = steps("compile", lambda: compile_with(lowered, options))
        trial.judged = judged_of(experiment, folder)
        trial.phases_s, trial.warnings = steps.seconds, compiler_warnings(log[0])
        read_program(trial, experiment, program, order, folder)
    trial.memory_bytes = memory_bytes(program)
    price(trial, experiment, program, order)

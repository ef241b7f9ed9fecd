"""Reads how every step of each strategy is sharded, after the timing."""

from collections.abc import Callable, Sequence

from spmd_core.engine.measured.trial import Trial
from spmd_core.engine.shardings import compiled_again
from spmd_core.experiment.experiment import Experiment
from spmd_core.ir.shardings import NAME
from spmd_core.results.shardings import Shardings
from spmd_core.runs.events import Event, Phase, Texts
from spmd_core.words import shardings as words
from spmd_core.workloads.strategies import ONE_DEVICE


def read(trials: Sequence[Trial], experiment: Experiment, emit: Callable[[Event], None],
         cancelled: Callable[[], bool]) -> None:
    """Read and keep them; whatever the compiler raises the second time is the reason why not."""
    for trial in trials:
        if cancelled() or trial.failure is not None:
            continue
        emit(Phase(phase="shardings", strategy=trial.key))
        found = _read(trial, trial.row.experiment if trial.row else experiment)
        emit(Texts(strategy=trial.key, texts={NAME: found.model_dump_json()}))


def _read(trial: Trial, experiment: Experiment) -> Shardings:
    if trial.strategy in ONE_DEVICE:
        return Shardings(reason=words.ONE_DEVICE)
    if trial.lowered is None:
        return Shardings(reason=words.NOT_COMPILED)
    try:
        return compiled_again(trial.lowered, experiment.mesh, trial.collectives or ())
    except Exception as error:  # whatever the compiler raises: what was measured stays
        return Shardings(reason=" ".join(str(error).split())[:300] or type(error).__name__)

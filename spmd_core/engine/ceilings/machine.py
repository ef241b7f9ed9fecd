"""Measures the machine itself: a run without strategies."""

from collections.abc import Callable

from spmd_core.engine import devices
from spmd_core.engine.ceilings.calibration import run_calibration
from spmd_core.engine.ceilings.collective_sweep import STRATEGY, run_collectives
from spmd_core.experiment import Experiment
from spmd_core.results import Environment, Result
from spmd_core.runs import Event, Finished

_RUNS = {"collectives": run_collectives, "calibrate": run_calibration}


def run(
    experiment: Experiment,
    run_id: str,
    environment: Environment,
    emit: Callable[[Event], None],
    cancelled: Callable[[], bool],
) -> Finished:
    """Measure what the workload names; `partial` where `cancelled` came first."""
    outcome = _RUNS[experiment.workload](experiment, emit, cancelled)
    measured = environment.model_copy(update={"load": devices.load()})
    return Finished(
        result=Result(
            run=run_id,
            experiment=experiment,
            environment=measured,
            partial=cancelled(),
            strategies={STRATEGY: outcome},
        )
    )

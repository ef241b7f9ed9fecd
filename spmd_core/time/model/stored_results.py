"""What is known of a machine from its last calibration."""

from collections.abc import Callable, Iterable

from spmd_core.base import UnreadableRun
from spmd_core.experiment import Experiment, Mesh, parse_experiment
from spmd_core.machine import parse_target
from spmd_core.results import Environment, Result, StrategyResult
from spmd_core.time.bandwidth.predicted import with_times
from spmd_core.time.model.calibration import Calibration
from spmd_core.time.model.time_model import TimeModel, time_model

Latest = Callable[[Experiment], str | None]
Stored = Callable[[str], Result | None]
FLOOR_S = 1e-4  # of a call of all devices, where it was not measured


def calibration_of(experiment: Experiment) -> Experiment:
    """The calibration of an experiment's target and mesh."""
    return parse_experiment(
        {
            "workload": "calibrate",
            "target": experiment.target,
            "mesh": experiment.axis_sizes,
            "options": {"device_order": experiment.option("device_order")},
        }
    )


def calibration(experiment: Experiment, latest: Latest, stored: Stored) -> Result | None:
    """The newest calibration of an experiment's target and mesh, made by the same JAX; None where
    there is none. `latest` gives the newest run of an experiment, `stored` a run's result.
    """
    if experiment.place.is_absent:
        return None
    run = latest(calibration_of(experiment))
    try:
        return stored(run) if run else None
    except UnreadableRun:  # of another version: as good as none
        return None


def calibration_on(
    target: str, meshes: Iterable[Mesh], latest: Latest, stored: Stored
) -> Calibration | None:
    """The first complete calibration of a target over one of these meshes; None where there is
    none, or the target is not attached.
    """
    for mesh in meshes if not parse_target(target).is_absent else ():
        result = calibration(
            parse_experiment({"workload": "calibrate", "target": target, "mesh": dict(mesh)}),
            latest,
            stored,
        )
        if result and (known := Calibration(measured(result))).is_complete:
            return known
    return None


def times_where_run(
    experiment: Experiment, environment: Environment, known: Result | None
) -> TimeModel:
    """What is known of the machine of a run: its calibration; guesses for simulated devices."""
    return time_model(
        experiment,
        Calibration(measured(known)) if known is not None else None,
        (environment.cores or 1) if environment.simulated else None,
        environment.dispatch_floor_s or FLOOR_S,
    )


def with_expected(result: Result, known: Result | None) -> Result:
    """A sweep with what a calibration of the same mesh expects of each point."""
    if known is None:
        return result
    times = times_where_run(result.experiment, result.environment, known)
    return result.model_copy(
        update={
            "strategies": {
                name: outcome.model_copy(
                    update={"points": with_times(outcome.points, result.experiment.mesh, times)}
                )
                for name, outcome in result.strategies.items()
            }
        }
    )


def measured(result: Result) -> StrategyResult:
    """The outcome of a run that measures its machine: of its only strategy."""
    return next(iter(result.strategies.values()))

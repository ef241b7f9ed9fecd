"""What is known of a machine from its last calibration; the points of a sweep of collectives, and
what is expected of each.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from spmd_core.base import UnreadableRun
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.fields import Mesh
from spmd_core.machine import parse_target
from spmd_core.results import Environment, Point, Result, StrategyResult
from spmd_core.roofline.calibration import Calibration
from spmd_core.roofline.duration import Duration
from spmd_core.roofline.time_model import TimeModel, time_model
from spmd_core.workloads import DTYPE_BYTES, TRANSFERS, chosen_axes, chosen_kinds, ladder

_STEP = 4  # between sizes beyond those of a sweep


@dataclass(frozen=True, slots=True)
class Case:
    """One collective over some axes of the mesh, and the bytes of each of its points, ascending."""

    kind: str
    axes: tuple[str, ...]
    devices: int  # of a group
    dtype: str
    sizes: tuple[int, ...]

    def reaching(self, size: int) -> tuple[int, ...]:
        """Returns the sizes with `size` among them, and steps of 4 times to one beyond the largest; of
        0 the sizes alone.
        """
        unit = DTYPE_BYTES[self.dtype] * self.devices
        wanted = max(1, round(size / unit)) * unit
        steps = {wanted} if size else set[int]()
        step = self.sizes[-1] * _STEP
        while size and step < wanted:
            steps.add(step)
            step *= _STEP
        return tuple(sorted({*self.sizes, *steps}))

    def point(
        self,
        nbytes: int,
        time_s: float | None = None,
        ci95_s: tuple[float, float] | None = None,
        *,
        correct: bool | None = None,
        predicted_s: float | None = None,
        error: str | None = None,
    ) -> Point:
        """A point of this case; its bandwidths, in bytes per second, follow from its seconds."""
        bandwidth = nbytes / time_s if time_s else None
        factor = TRANSFERS[self.kind].bus_factor(self.devices)
        return Point(
            kind=self.kind,
            axes=self.axes,
            devices=self.devices,
            dtype=self.dtype,
            bytes=nbytes,
            time_s=time_s,
            ci95_s=ci95_s,
            algbw=bandwidth,
            busbw=bandwidth * factor if bandwidth else None,
            predicted_s=predicted_s,
            correct=correct,
            error=error,
            in_program=time_s is not None and TRANSFERS[self.kind].between_devices,
        )


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
    """The outcome of a run that measures its machine: of its only strategy, without measurements
    where it ended before that.
    """
    return next(iter(result.strategies.values()), StrategyResult(status="cancelled"))


def on_topology(experiment: Experiment, size: int = 0) -> tuple[Point, ...]:
    """Every point of a sweep on a topology that is not attached, in seconds of its links; with those
    of another `size` in bytes, where one is given.
    """
    points = (case.point(nbytes) for case in cases(experiment) for nbytes in case.reaching(size))
    return with_times(points, experiment.mesh, time_model(experiment))


def with_times(points: Iterable[Point], mesh: Mesh, times: TimeModel) -> tuple[Point, ...]:
    """The points with the seconds that each is expected to take, the dispatch floor included where
    it is a call of its own; as they are where that is not known.
    """
    return tuple(
        point.model_copy(update={"predicted_s": time.seconds if point.in_program else time.alone_s})
        if point.predicted_s is None
        and not TRANSFERS[point.kind].between_meshes
        and isinstance(
            time := times.collective(point.kind, mesh, point.axes, point.bytes), Duration
        )
        else point
        for point in points
    )


def cases(experiment: Experiment) -> tuple[Case, ...]:
    """The cases of a sweep: collectives over each group of axes, then copies from and to hosts,
    then from mesh to mesh."""
    options, sizes = dict(experiment.options), experiment.axis_sizes
    each = DTYPE_BYTES[experiment.dtype]
    listed = []
    for kind in chosen_kinds(options):
        groups = chosen_axes(options, experiment.mesh) if TRANSFERS[kind].has_axes else ((),)
        for axes in groups:
            devices = math.prod(sizes[axis] for axis in axes)
            listed.append(
                Case(kind, axes, devices, experiment.dtype, ladder(options, each * devices))
            )
    return tuple(listed)

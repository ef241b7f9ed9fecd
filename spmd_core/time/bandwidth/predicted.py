"""What is expected of the points of a sweep of collectives."""

from collections.abc import Iterable

from spmd_core.experiment import Experiment, Mesh
from spmd_core.results import Point
from spmd_core.time.bandwidth.cases import cases
from spmd_core.time.model.duration import Duration
from spmd_core.time.model.time_model import TimeModel, time_model


def on_topology(experiment: Experiment) -> tuple[Point, ...]:
    """Every point of a sweep on a topology that is not attached, in seconds of its links."""
    points = (case.point(nbytes) for case in cases(experiment) for nbytes in case.sizes)
    return with_times(points, experiment.mesh, time_model(experiment))


def with_times(points: Iterable[Point], mesh: Mesh, times: TimeModel) -> tuple[Point, ...]:
    """The points with the seconds that each is expected to take, the dispatch floor included where
    it is a call of its own; as they are where that is not known.
    """
    return tuple(
        point.model_copy(update={"predicted_s": time.seconds if point.in_program else time.alone_s})
        if point.predicted_s is None
        and isinstance(
            time := times.collective(point.kind, mesh, point.axes, point.bytes), Duration
        )
        else point
        for point in points
    )

"""What is expected of collectives: by the cost model on TPUs, by a calibration elsewhere."""

from collections.abc import Iterable, Sequence

import numpy as np

from spmd_core.experiment import TRANSFERS, Experiment
from spmd_core.machine import Coordinates, Topology, get_topology, mesh_places
from spmd_core.results import Fit, Point
from spmd_core.time.bandwidth.cases import Case, cases
from spmd_core.time.cost.constants import HOST_EFFICIENCY
from spmd_core.time.cost.links import collective_s, paths, permute_s, route


def on_topology(experiment: Experiment) -> tuple[Point, ...]:
    """Every point of a sweep on a topology that is not attached, predicted alone, in seconds.

    RequestError where the mesh does not fill the topology.
    """
    topology = get_topology(experiment.place)
    places = mesh_places(
        topology, [size for _, size in experiment.mesh], experiment.option("device_order")
    )
    return tuple(
        case.point(nbytes, predicted_s=seconds(case, nbytes, topology, group))
        for case in cases(experiment)
        for group in [_group(case, experiment, places)]
        for nbytes in case.sizes
    )


def _group(case: Case, experiment: Experiment, places: np.ndarray) -> list[Coordinates]:
    """Coordinates of the devices of the first group; the others are alike."""
    first = tuple(slice(None) if name in case.axes else 0 for name, _ in experiment.mesh)
    return [tuple(place) for place in np.asarray(places[first]).reshape(-1, 5).tolist()]


def seconds(case: Case, nbytes: int, topology: Topology, group: Sequence[Coordinates]) -> float:
    """Seconds of one point on links of a topology, at the rates that the cost model expects."""
    if not TRANSFERS[case.kind].between_devices:
        return nbytes / (topology.chip.host_bandwidth * HOST_EFFICIENCY)
    if case.kind == "collective-permute":
        pairs = [(place, (place + 1) % len(group)) for place in range(len(group))]
        return permute_s(topology, paths(topology, pairs, group), nbytes)
    return collective_s(topology, case.kind, route(topology, range(len(group)), group), nbytes)


def by_calibration(points: Iterable[Point], known: Sequence[Fit]) -> tuple[Point, ...]:
    """The points with the seconds that the fits of a calibration of the same mesh expect; as they
    are where it has none of their kind and axes.
    """
    lines = {(fit.kind, fit.axes, fit.devices): fit for fit in known}
    return tuple(
        point.model_copy(update={"predicted_s": expected(point, lines[key])})
        if point.predicted_s is None and (key := (point.kind, point.axes, point.devices)) in lines
        else point
        for point in points
    )


def expected(point: Point, fit: Fit) -> float:
    """Seconds of a point by the straight line of a fit."""
    moved = point.bytes * TRANSFERS[point.kind].bus_factor(point.devices)
    return fit.latency_s + moved / fit.bandwidth

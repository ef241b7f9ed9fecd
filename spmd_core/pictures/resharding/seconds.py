"""How long a move takes on a target: by the cost model on TPUs, by a calibration elsewhere."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spmd_core.base import RequestError
from spmd_core.experiment import Experiment
from spmd_core.machine import Topology, get_topology, mesh_places
from spmd_core.pictures.resharding.moves import Move
from spmd_core.results import Fit, Point
from spmd_core.search import HostRates, Rates, TpuRates
from spmd_core.time import EXPECTED, collective_s, expected, paths, permute_s, route_of

Cost = Callable[[Move], float | None]  # seconds; None where nothing is known


@dataclass(frozen=True, slots=True)
class Costs:
    """`of` a move on the target; `rates`, by which splits of the work are compared."""

    of: Cost
    rates: Rates
    is_known: bool


def costs(experiment: Experiment, lines: Sequence[Fit] = ()) -> Costs:
    """What moves cost on an experiment's target. `lines` are the fits of its calibration, which
    only attached and simulated devices need.
    """
    if experiment.place.is_absent:
        try:
            topology = get_topology(experiment.place)
            mesh_places(topology, [size for _, size in experiment.mesh])
        except RequestError:  # the mesh does not fill it: no place, no links
            return Costs(_unknown, HostRates(experiment.device_count, 1), False)
        return Costs(lambda move: on_topology(topology, experiment, move), TpuRates(topology), True)
    rates = HostRates(experiment.device_count, 1)
    if not lines:
        return Costs(_unknown, rates, False)
    return Costs(lambda move: by_calibration(experiment, move, lines), rates, True)


def _unknown(move: Move) -> float | None:
    return None if move.sends else 0.0


def on_topology(topology: Topology, experiment: Experiment, move: Move) -> float:
    """Seconds by the cost model's links, as devices of the mesh stand there."""
    if not move.sends:
        return 0.0
    order = str(experiment.option("device_order"))
    if move.kind == "collective-permute":
        places = mesh_places(topology, [size for _, size in experiment.mesh], order)
        placed = [tuple(place) for place in places.reshape(-1, 5).tolist()]
        return permute_s(topology, paths(topology, move.pairs, placed), move.nbytes)
    where = route_of(topology, experiment.mesh, order, move.axes)
    return collective_s(topology, move.kind, where, move.nbytes, EXPECTED)


def by_calibration(experiment: Experiment, move: Move, lines: Sequence[Fit]) -> float | None:
    """Seconds by the straight line that was fitted to its kind, over its axes or else among as many
    devices; None where there is neither.
    """
    if not move.sends:
        return 0.0
    count = math.prod(experiment.axis_sizes[axis] for axis in move.axes)
    alike = [fit for fit in lines if fit.kind == move.kind and fit.axes == move.axes] or [
        fit for fit in lines if fit.kind == move.kind and fit.devices == count
    ]
    if not alike:
        return None
    return expected(
        Point(
            kind=move.kind, axes=move.axes, devices=alike[0].devices, dtype="", bytes=move.nbytes
        ),
        alike[0],
    )

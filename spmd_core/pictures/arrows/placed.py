"""The placement of a mesh's devices: their ids, mesh positions, coordinates and hosts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from spmd_core.base import RequestError, by_key
from spmd_core.experiment import Experiment, device_numbers
from spmd_core.machine import Coordinates, Gpu, Topology, get_topology, mesh_places
from spmd_core.results import Environment
from spmd_core.time import cluster_of

Mesh = tuple[tuple[str, int], ...]
HOST_CHIPS = 2  # along x and y: a host of a TPU slice has 2 x 2 chips, as the compiler lists them


@dataclass(frozen=True)
class Placed:
    """The devices of a mesh, in the order of `mesh.devices`.

    `numbers` are JAX's. `places` are coordinates (x, y, z, core, slice) on `topology`, both None
    where links are unknown: simulated devices, GPUs, or TPUs that form no box. devices of equal
    `hosts` share a host.
    """

    mesh: Mesh
    numbers: tuple[int, ...]
    hosts: tuple[tuple[int, ...], ...]
    topology: Topology | None = None
    places: tuple[Coordinates, ...] | None = None

    @cached_property
    def positions(self) -> Mapping[int, int]:
        """JAX's number -> position in `mesh.devices`."""
        return {number: at for at, number in enumerate(self.numbers)}

    @cached_property
    def chips(self) -> Mapping[Coordinates, tuple[int, ...]]:
        """(x, y, z, slice) -> positions of the devices of that chip, in order of their core."""
        places = self.places or ()
        chips = by_key(((*place[:3], place[4]), at) for at, place in enumerate(places))
        return {
            chip: tuple(sorted(held, key=lambda at: places[at][3])) for chip, held in chips.items()
        }


def placed(experiment: Experiment, environment: Environment | None = None) -> Placed:
    """The placement of the devices of an experiment's mesh; `environment` describes attached ones.

    Devices of a compile-only topology are placed by jax's mesh_utils, as for the compiler.
    """
    mesh = experiment.mesh
    count = experiment.device_count
    if experiment.place.is_absent:
        return _absent(experiment)
    seen = environment.devices if environment else ()
    if experiment.place.is_attached and len(seen) >= count:
        return _attached(experiment, environment, mesh) if environment else _plain(mesh, None)
    return _plain(mesh, device_numbers(experiment))


def _plain(mesh: Mesh, numbers: np.ndarray | None) -> Placed:
    count = int(np.prod([size for _, size in mesh]))
    listed = tuple(range(count)) if numbers is None else tuple(int(each) for each in numbers)
    return Placed(mesh, listed, ((0,),) * count)


def _absent(experiment: Experiment) -> Placed:
    numbers = device_numbers(experiment)
    try:
        topology = get_topology(experiment.place)
        mesh_order = mesh_places(
            topology, [size for _, size in experiment.mesh], str(experiment.option("device_order"))
        )
    except RequestError:  # a mesh that does not fill its topology
        return _plain(experiment.mesh, numbers)
    places = tuple(tuple(place) for place in mesh_order.reshape(-1, 5).tolist())
    listed = tuple(range(len(places))) if numbers is None else tuple(numbers.tolist())
    return Placed(
        experiment.mesh, listed, tuple(_host(place, topology) for place in places), topology, places
    )


def _host(place: Coordinates, topology: Topology) -> tuple[int, ...]:
    x, y, z, _, number = place
    if isinstance(topology.chip, Gpu):
        return x // topology.chip.host_chips, number
    return x // HOST_CHIPS, y // HOST_CHIPS, z, number


def _attached(experiment: Experiment, environment: Environment, mesh: Mesh) -> Placed:
    first = environment.devices[: experiment.device_count]
    hosts = tuple((device.process,) for device in first)
    plain = Placed(mesh, tuple(device.id for device in first), hosts)
    if any(device.coords is None for device in first) or len(first) < environment.device_count:
        return plain
    places = [(*(*(device.coords or ()), 0, 0, 0)[:3], device.core or 0, 0) for device in first]
    try:
        topology = cluster_of(environment.device_kind, places, places).topology
        order = mesh_places(
            topology, [size for _, size in mesh], str(experiment.option("device_order"))
        ).reshape(-1, 5)
    except RequestError:
        return plain
    low = [min(place[axis] for place in places) for axis in range(3)]
    by_place = {
        tuple(at - least for at, least in zip(place[:3], low, strict=True)) + place[3:]: (
            device.id,
            (device.process,),
        )
        for place, device in zip(places, first, strict=True)
    }
    placed = tuple(tuple(place) for place in order.tolist())
    if not set(placed) <= set(by_place):
        return plain
    return Placed(
        mesh,
        tuple(by_place[place][0] for place in placed),
        tuple(by_place[place][1] for place in placed),
        topology,
        placed,
    )

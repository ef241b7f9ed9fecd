"""Which device holds which part of each array: what makes two shardings of a topology one."""

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from spmd_core.base import by_key
from spmd_core.experiment import Sharded
from spmd_core.fields import Axes, Mesh
from spmd_core.machine import Topology, mesh_places
from spmd_core.search.spaces.array_space import Dims
from spmd_core.workloads import Divides, Workload

MOST_DEVICES = 1024  # of a topology that is turned and mirrored: beyond, only equal parts are one
Key = tuple[object, ...]


class Placements:
    """The shardings of a topology, distinguished by what their devices hold. `order` is how a mesh
    takes its devices, as an experiment's `device_order`.

    A sharding defines which device has which part: names of axes, axes of no use, and the factors
    in which one is written mean nothing where every device has the same part of everything. Nor
    does it matter which of two alike corners of the grid is the first.
    """

    def __init__(self, topology: Topology, order: str = "topology"):
        self.topology, self._order = topology, order
        self._numbers: dict[bytes, int] = {}
        self._known: dict[tuple[Mesh, Axes], tuple[int, ...]] = {}
        self._spots: dict[tuple[int, ...], np.ndarray] = {}

    def keys(self, sharded: Sharded, what: Workload, sizes: Dims) -> tuple[Key, Key]:
        """Two keys: shardings of equal first keys give every device the same parts; those of equal
        second keys do so on the topology turned or mirrored.
        """
        parts = [
            (name, self._images(sharded.mesh, axes))
            for name, axes in _split(sharded, what, sizes)
            if sharded.parts(axes) > 1
        ]
        views = [
            tuple((name, images[view]) for name, images in parts)
            for view in range(len(self._symmetries))
        ]
        return (sharded.target, *views[0]), (sharded.target, *min(views))

    def parts(self, mesh: Mesh, axes: Axes) -> np.ndarray:
        """[devices]: which part of a dim over these axes each place of the topology has."""
        sizes = dict(mesh)
        at = dict(
            zip(sizes, np.indices(tuple(sizes.values())).reshape(len(sizes), -1), strict=True)
        )
        number = np.zeros(math.prod(sizes.values()), dtype=np.int64)
        for axis in axes:
            number = number * sizes[axis] + at[axis]
        parts = np.empty_like(number)
        parts[self._places(tuple(sizes.values()))] = number
        return parts

    def _images(self, mesh: Mesh, axes: Axes) -> tuple[int, ...]:
        """Numbers of the parts as each symmetry shows them: equal for equal parts."""
        if (mesh, axes) not in self._known:
            parts = self.parts(mesh, axes)
            self._known[mesh, axes] = tuple(
                self._numbers.setdefault(parts[view].tobytes(), len(self._numbers))
                for view in self._symmetries
            )
        return self._known[mesh, axes]

    def _places(self, sizes: tuple[int, ...]) -> np.ndarray:
        if sizes not in self._spots:
            places = mesh_places(self.topology, sizes, self._order).reshape(-1, 5)
            self._spots[sizes] = np.ravel_multi_index(tuple(places.T), self._shape)
        return self._spots[sizes]

    @property
    def _shape(self) -> tuple[int, ...]:
        topology = self.topology
        return (*(*topology.shape, 1, 1)[:3], topology.chip.devices_per_chip, topology.slices)

    @cached_property
    def _symmetries(self) -> Sequence[np.ndarray]:
        """[devices] each: the place that is seen at each place; the first shows all as it is."""
        plain = np.arange(math.prod(self._shape)).reshape(self._shape)
        if plain.size > MOST_DEVICES:
            return [plain.reshape(-1)]
        return list({view.tobytes(): view for view in self._views(plain)}.values())

    def _views(self, plain: np.ndarray) -> Iterator[np.ndarray]:
        """The topology mirrored along any axes, with axes of equal length and ends exchanged. A
        shifted ring is left out: a part across its seam is distinguished by the cost model.
        """
        wraps = (*self.topology.wraps, False, False)[:3]
        for order in itertools.permutations(range(3)):
            if any(
                plain.shape[a] != plain.shape[b] or wraps[a] != wraps[b]
                for a, b in enumerate(order)
            ):
                continue
            turned = plain.transpose((*order, 3, 4))
            for mirrored in itertools.product((1, -1), repeat=3):
                yield turned[tuple(slice(None, None, way) for way in mirrored)].reshape(-1)


def is_ambiguous(sharded: Sharded, what: Workload, sizes: Dims) -> bool:
    """Whether a compiler has to choose: an axis shards two dims, or two axes a dim and one that it
    is a multiple of (query heads and key heads). Then its program depends on how axes are written;
    seen of the TPU compiler: up to 1.5 times the time for the same parts.
    """
    specs = [
        zip(array.present(sizes), sharded.spec(what, sizes, array.name), strict=True)
        for array in what.arrays
    ]
    dims = by_key(
        (axis, dim) for dim, axes in itertools.chain(sharded.table, *specs) for axis in axes
    )
    used = [set(dims[axis]) for axis, size in sharded.mesh if size > 1 and axis in dims]
    return any(len(each) > 1 for each in used) or any(
        {rule.dim} in used and {rule.other} in used
        for rule in what.size_rules
        if isinstance(rule, Divides)
    )


def _split(sharded: Sharded, what: Workload, sizes: Dims) -> Iterator[tuple[object, Axes]]:
    """(what is split, over which axes): dim by dim, or each dim of each array of its own spec."""
    if not sharded.overrides:
        yield from sorted(sharded.table)
        return
    for array in what.arrays:
        for number, axes in enumerate(sharded.spec(what, sizes, array.name)):
            yield f"{array.name}.{number}", axes
    yield from sorted(sharded.table)

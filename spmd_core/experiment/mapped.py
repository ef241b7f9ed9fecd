"""What a map strategy maps: a dim, and how it is split over devices."""

from dataclasses import dataclass

from spmd_core.base import Inexpressible
from spmd_core.experiment.experiment import Experiment
from spmd_core.experiment.options import read_in_axes
from spmd_core.workloads import Array

AXIS_NAME = "devices"


@dataclass(frozen=True, slots=True)
class MapPlan:
    """The mapped dim of `size`: one row at a time or, if the function sums along it, one block per
    device.
    """

    strategy: str
    dim: str
    size: int
    in_axes: tuple[int | None, ...]
    out_axes: tuple[int | None, ...]
    blocks: bool
    devices: int

    @property
    def splits(self) -> bool:
        """Whether the mapped dim is split into devices and what each of them has."""
        return self.blocks or self.strategy == "pmap(vmap)"

    def arranged(self, shape: tuple[int, ...], axis: int | None) -> tuple[int, ...]:
        """The shape of an operand as the mapped function takes it."""
        if axis is None or not self.splits:
            return shape
        return (*shape[:axis], self.devices, self.size // self.devices, *shape[axis + 1 :])


def read_plan(experiment: Experiment, strategy: str) -> MapPlan:
    """The mapped dim, by the option in_axes or else by the workload. Inexpressible if in_axes does
    not fit the operands.
    """
    what, sizes = experiment.what, experiment.sizes
    given = read_in_axes(experiment.option("in_axes"))
    dim = what.mapped_dim(sizes) if given is None else _dim_of(experiment, given, strategy)
    in_axes = tuple(_position(array, dim, experiment) for array in what.operands)
    out_axes = tuple(_position(array, dim, experiment) for array in what.results)
    return MapPlan(
        strategy,
        dim,
        sizes[dim],
        in_axes,
        out_axes,
        dim in what.contracted,
        experiment.device_count,
    )


def _dim_of(experiment: Experiment, in_axes: tuple[int | None, ...], strategy: str) -> str:
    text = experiment.option("in_axes")
    dims: dict[str, None] = {}
    for array, axis in zip(experiment.what.operands, in_axes, strict=True):
        present = array.present(experiment.sizes)
        if axis is None:
            continue
        if axis >= len(present):
            raise Inexpressible(
                f"{strategy} cannot take in_axes={text}: {array.name} has rank {len(present)} and "
                f"no axis {axis}; "
                f"use an axis below {len(present)}, or None"
            )
        dims[present[axis]] = None
    if len(dims) != 1:
        what = f"it maps {' and '.join(dims)} at once" if dims else "it maps nothing"
        raise Inexpressible(
            f"{strategy} cannot take in_axes={text}: {what}; give every operand the axis of one "
            f"dim, and None where it has none"
        )
    dim = next(iter(dims))
    for array, axis in zip(experiment.what.operands, in_axes, strict=True):
        if axis is None and dim in array.present(experiment.sizes):
            place = array.present(experiment.sizes).index(dim)
            raise Inexpressible(
                f"{strategy} cannot take in_axes={text}: {array.name} has {dim} too; give it "
                f"{place} instead of None"
            )
    return dim


def _position(array: Array, dim: str, experiment: Experiment) -> int | None:
    present = array.present(experiment.sizes)
    return present.index(dim) if dim in present else None

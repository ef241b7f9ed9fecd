"""The communication of one contraction, such as x @ weights, for a sharding of its arrays.

Every mesh axis splits one dim of the loop nest, or none. Operands are moved to where that split
needs them; an axis that splits a contracted dim leaves partial sums, which are added; the result is
moved to where it is wanted. Of all splits the one that takes the least time is taken.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from spmd_core.experiment import Experiment, dtype_of
from spmd_core.fields import Axes, Spec
from spmd_core.pictures.resharding.moves import Move, check_size, reshard, time_of
from spmd_core.roofline import TimeModel
from spmd_core.workloads import Workload, item_bytes

MOST_DEVICES = 1024  # of which every way to split the work is looked at
Split = dict[str, str]  # mesh axis -> the dim of the loop nest that it splits


@dataclass(frozen=True, slots=True)
class Product:
    """What a contraction needs: the dims that axes split, the moves in order (operands, sums,
    result), and for each array the spec that the computation uses.
    """

    split: tuple[tuple[str, str], ...]
    moves: tuple[Move, ...]
    used: tuple[tuple[str, Spec], ...]
    partial: Axes  # axes over which devices hold partial sums

    @property
    def collectives(self) -> tuple[Move, ...]:
        """The moves that send something."""
        return tuple(move for move in self.moves if move.sends)


def is_product(what: Workload) -> bool:
    """Whether a workload is one contraction of two operands or more, such as `layer`."""
    program = what.program
    matrices = [array for array in what.operands if len(array.dims) > 1]
    return (
        what.kind == "computation"
        and len(what.results) == 1
        and len(matrices) > 1
        and bool(what.contracted)
        and not (program.between or program.gathered or program.halo)
    )


def product(experiment: Experiment, times: TimeModel) -> Product:
    """The communication of an experiment's contraction; `times` decide among splits.

    RequestError where the mesh is too large for all splits to be looked at.
    """
    check_size(experiment.mesh, MOST_DEVICES)
    flops = experiment.what.flops(experiment.sizes)

    def cost(split: Split) -> tuple[float, int]:
        moves = _of_split(experiment, split)
        parts = math.prod(experiment.axis_sizes[axis] for axis in split)
        moved = (time_of(move, experiment.mesh, times) for move in moves.collectives)
        seconds = [each.seconds or 0.0 for each in (times.matmul(flops / parts), *moved)]
        # of equal ones, the one that moves least
        return sum(seconds), len(moves.moves)

    return _of_split(experiment, min(_splits(experiment), key=cost))


def _splits(experiment: Experiment) -> Iterator[Split]:
    """Every way to split the loop nest whose dims divide and that the partitioner may take."""
    sizes = experiment.sizes
    dims = [dim for dim in experiment.what.dims if dim in sizes]
    axes = [axis for axis, size in experiment.mesh if size > 1]
    for chosen in itertools.product(*(_choices(experiment, axis) for axis in axes)):
        split = {axis: dim for axis, dim in zip(axes, chosen, strict=True) if dim is not None}
        parts = {
            dim: math.prod(experiment.axis_sizes[axis] for axis in split if split[axis] == dim)
            for dim in dims
        }
        if all(sizes[dim] % parts[dim] == 0 for dim in dims):
            yield split


def _choices(experiment: Experiment, axis: str) -> tuple[str | None, ...]:
    """Dims that an axis may split, as compiled programs have it: a contracted one only where all
    operands are sharded alike along it; else the result's, where that is sharded over the axis;
    else any of those that it shards, or none.
    """
    what = experiment.what
    held = {
        array.name: dict(
            zip(array.present(experiment.sizes), experiment.spec(array.name), strict=True)
        )
        for array in what.arrays
    }
    for dim in what.contracted:
        along = {held[array.name].get(dim, ()) for array in what.operands if dim in array.dims}
        if len(along) == 1 and axis in next(iter(along)):
            return (dim,)
    for dim, axes in held[what.results[0].name].items():
        if axis in axes:
            return (dim,)
    dims = (dim for spec in held.values() for dim, axes in spec.items() if axis in axes)
    return (*dict.fromkeys(dim for dim in dims if dim not in what.contracted), None)


def _of_split(experiment: Experiment, split: Split) -> Product:
    what, sizes = experiment.what, experiment.sizes
    order = {dim: _order(experiment, dim, split) for dim in what.dims if dim in sizes}
    moves, used = [], []
    for array in what.operands:
        needs = tuple(order[dim] for dim in array.present(sizes))
        moves += _named(experiment, array.name, experiment.spec(array.name), needs)
        used.append((array.name, needs))
    result = what.results[0]
    computed = tuple(order[dim] for dim in result.present(sizes))
    used.append((result.name, computed))
    partial = tuple(axis for axis in split if split[axis] not in result.dims)
    sums, computed = _sums(experiment, computed, partial)
    moves += [*sums, *_named(experiment, result.name, computed, experiment.spec(result.name))]
    return Product(tuple(split.items()), tuple(moves), tuple(used), partial)


def _order(experiment: Experiment, dim: str, split: Split) -> Axes:
    """Axes that split a dim, major first, in the order in which an array that has them all is
    sharded over them; else in the mesh's.
    """
    axes = tuple(axis for axis in split if split[axis] == dim)
    for array in (*experiment.what.results, *experiment.what.operands):
        present = array.present(experiment.sizes)
        if dim in present:
            stored = experiment.spec(array.name)[present.index(dim)]
            if set(axes) <= set(stored):
                return tuple(axis for axis in stored if axis in axes)
    return axes


def _named(experiment: Experiment, name: str, before: Spec, after: Spec) -> list[Move]:
    item = item_bytes(dtype_of(experiment, name))
    return [
        replace(move, array=name)
        for move in reshard(experiment.mesh, experiment.shape(name), before, after, item)
    ]


def _sums(experiment: Experiment, computed: Spec, partial: Axes) -> tuple[list[Move], Spec]:
    """Partial sums added: over axes that the result is sharded over, each device keeps its shard of
    the sum (reduce-scatter); over the others, all of it (all-reduce).
    """
    name = experiment.what.results[0].name
    wanted, shape = experiment.spec(name), experiment.shape(name)
    sizes = experiment.axis_sizes
    item = item_bytes(dtype_of(experiment, name))
    nbytes = math.prod(shape) * item // math.prod(sizes[axis] for axes in computed for axis in axes)
    kept = [(axis, dim) for dim, axes in enumerate(wanted) for axis in axes if axis in partial]
    now, sums = [list(axes) for axes in computed], []
    scattered = []
    for axis, dim in kept:
        if shape[dim] % math.prod(sizes[each] for each in (*now[dim], axis)) == 0:
            now[dim].append(axis)
            scattered.append((axis, dim))
    if scattered:
        axes, dims = tuple(axis for axis, _ in scattered), tuple(dim for _, dim in scattered)
        sums.append(Move("reduce-scatter", axes, nbytes, dims, array=name))
        nbytes //= math.prod(sizes[axis] for axis in axes)
    rest = tuple(axis for axis in partial if axis not in dict(scattered))
    if rest:
        sums.append(Move("all-reduce", rest, nbytes, array=name))
    return sums, tuple(map(tuple, now))

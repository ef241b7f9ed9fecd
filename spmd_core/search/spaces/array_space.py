"""The space of an experiment's shardings: meshes times assignments of their axes, in one order."""

import itertools
import math
from collections.abc import Iterator, Mapping

from spmd_core.base import by_key
from spmd_core.experiment import Experiment, Sharded, rows_dim
from spmd_core.fields import Mesh, Spec, axes_of
from spmd_core.search.array_question import ArrayQuestion, program_meshes
from spmd_core.search.chips import MAX_AXES, factorizations
from spmd_core.workloads import Array, Workload

NAMES = ("x", "y", "z")
Dims = Mapping[str, int]


def shardings(question: ArrayQuestion) -> Iterator[Sharded]:
    """Every way to shard it, in an order that depends on the question alone."""
    for target in question.targets:
        sample = question.sample_on(target)
        for mesh in meshes(question, target):
            if "overrides" in question.searched:
                yield from _by_array(sample, target, mesh)
            elif "sharding" in question.searched:
                yield from _by_dim(sample, target, mesh, _given_specs(question))
            else:
                yield _as_given(question, target, mesh)


def meshes(question: ArrayQuestion, target: str) -> Iterator[Mesh]:
    """The spec's mesh, or every factorization of the devices over the axes that are named; where
    the sharding is searched, over further ones too.
    """
    if question.spec.get("mesh") is not None:
        yield question.sample_on(target).mesh
        return
    devices, named = question.count(target), question.named_axes
    if question.described is not None:
        yield from program_meshes(question.described, devices)
        return
    if named:
        if "sharding" not in question.searched:
            for sizes in _products(devices, len(named)):
                yield tuple(zip(named, sizes, strict=True))
            return
        # what stays put over an axis of one device would not be sharded
        names = (*named, *(name for name in NAMES if name not in named))
        for count in range(len(named), max(MAX_AXES, len(named)) + 1):
            for sizes in _products(devices, count):
                if 1 not in sizes or (devices < 2 ** len(named) and count == len(named)):
                    yield tuple(zip(names, sizes, strict=False))
        return
    for count in range(1, MAX_AXES + 1):
        for sizes in factorizations(devices, count) if devices > 1 else ((1,),) * (count == 1):
            yield tuple(zip(NAMES, sizes, strict=False))


def _products(devices: int, count: int) -> Iterator[tuple[int, ...]]:
    if count == 1:
        yield (devices,)
        return
    for first in range(1, devices + 1):
        if devices % first == 0:
            yield from ((first, *rest) for rest in _products(devices // first, count - 1))


def size_of(question: ArrayQuestion) -> int:
    """How many shardings there are, without listing them."""
    total = 0
    for target in question.targets:
        sample = question.sample_on(target)
        what, sizes = sample.what, sample.sizes
        for mesh in meshes(question, target):
            if "overrides" in question.searched:
                total += math.prod(
                    (1 + len(array.present(sizes))) ** len(mesh) for array in _free(what, sizes)
                )
            else:
                total += (
                    len(dim_sets(what, sizes)) ** len(mesh)
                    if "sharding" in question.searched
                    else 1
                )
    return total


def _free(what: Workload, sizes: Dims) -> list[Array]:
    """Arrays with a spec of their own: all but the operands that have a result's dims."""
    results = {array.present(sizes): array.name for array in what.results}
    return [
        array
        for array in what.arrays
        if results.get(array.present(sizes), array.name) == array.name
    ]


def _as_given(question: ArrayQuestion, target: str, mesh: Mesh) -> Sharded:
    spec = question.spec
    table = {dim: axes_of(axes) for dim, axes in dict(spec.get("sharding") or {}).items()}
    return Sharded(target, mesh, tuple(table.items()), _given_specs(question))


def _given_specs(question: ArrayQuestion) -> tuple[tuple[str, Spec], ...]:
    return tuple(
        (name, tuple(map(axes_of, spec)))
        for name, spec in dict(question.spec.get("overrides") or {}).items()
    )


def dim_sets(what: Workload, sizes: Dims) -> list[tuple[str, ...]]:
    """Dims that one mesh axis may shard: none, one, or the result's first with another that no
    array has beside it, which is how fsdp stores weights.
    """
    dims = [
        dim
        for dim in what.dims
        if dim in sizes
        and any(dim in array.dims and dim not in array.unsharded for array in what.arrays)
    ]
    together = {
        frozenset(pair)
        for array in what.arrays
        for pair in itertools.combinations(
            [dim for dim in array.present(sizes) if dim not in array.unsharded], 2
        )
    }
    first = rows_dim(what, sizes)
    pairs = [
        (first, dim)
        for dim in dims
        if first in dims and dim != first and frozenset((first, dim)) not in together
    ]
    return [(), *((dim,) for dim in dims), *pairs]


def _by_dim(
    sample: Experiment, target: str, mesh: Mesh, kept: tuple[tuple[str, Spec], ...]
) -> Iterator[Sharded]:
    """Every assignment of axes to dims; the arrays that are `kept` stay put."""
    for chosen in itertools.product(dim_sets(sample.what, sample.sizes), repeat=len(mesh)):
        table = by_key(
            (dim, axis) for (axis, _), dims in zip(mesh, chosen, strict=True) for dim in dims
        )
        yield Sharded(
            target,
            mesh,
            tuple((dim, tuple(table[dim])) for dim in sample.what.dims if dim in table),
            kept,
        )


def _by_array(sample: Experiment, target: str, mesh: Mesh) -> Iterator[Sharded]:
    """Every spec of every operand and result; an operand of a result's dims is sharded as it is."""
    what, sizes = sample.what, sample.sizes
    results = {array.present(sizes): array.name for array in what.results}
    free = _free(what, sizes)
    choices = [list(_specs(array.present(sizes), mesh)) for array in free]
    for chosen in itertools.product(*choices):
        specs = {array.name: spec for array, spec in zip(free, chosen, strict=True)}
        full = {
            array.name: specs.get(array.name) or specs[results[array.present(sizes)]]
            for array in what.arrays
        }
        yield Sharded(target, mesh, (), tuple(full.items()))


def _specs(dims: tuple[str, ...], mesh: Mesh) -> Iterator[Spec]:
    """Each axis shards one of the dims, or none."""
    for places in itertools.product((None, *range(len(dims))), repeat=len(mesh)):
        yield tuple(
            tuple(axis for (axis, _), place in zip(mesh, places, strict=True) if place == number)
            for number in range(len(dims))
        )


def canonical(sharded: Sharded, what: Workload, sizes: Dims) -> tuple[object, ...]:
    """A key that shardings share which give every device the same parts where devices are alike, as
    simulated ones are: names and order of axes, axes of no use and how many factors an axis is
    written in mean nothing. Of a topology see `placement`.
    """
    uses = by_key(
        (axis, (array.name, number))
        for array in what.arrays
        for number, axes in enumerate(sharded.spec(what, sizes, array.name))
        for axis in axes
    )
    merged: dict[tuple[tuple[str, int], ...], int] = {}
    for axis, size in sharded.mesh:
        if size > 1 and axis in uses:
            merged[tuple(uses[axis])] = merged.get(tuple(uses[axis]), 1) * size
    return (sharded.target, *sorted(merged.items()))

"""A training step whose batch no mesh axis shards, although the devices divide its products: they
move activations of all its rows where they could move weights.
"""

import math
from collections.abc import Collection, Iterator, Mapping
from itertools import combinations

from spmd_core.facts import Accident
from spmd_core.fields import padded
from spmd_core.program.hlo.collective_ops import sites
from spmd_core.program.hlo.module import Computation, Instruction, Module
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.ir.batch import BatchFlow, is_constrained
from spmd_core.program.ir.needed import Labels
from spmd_core.program.ir.shardings import sharding_of

LEAST = 2.0  # times the bytes that a sharded batch would move
PASSES = 6  # of the weights that a sharded batch moves: 4 to 6 were compiled


class _Rows(BatchFlow):
    """Follows the rows of a batch: `is_sharded` where the program itself shards them."""

    is_sharded = False

    def judge(self, each: Instruction, of: Computation, known: dict[str, list[Labels]]) -> None:
        """Looks at a constraint, and at what a shard_map holds."""
        sharding = sharding_of(each, of, self.mesh)
        if sharding is None or len(known[each.name]) != 1 or not any(known[each.name][0]):
            return
        pairs = zip(known[each.name][0], sharding.spec, strict=False)
        is_meant = is_constrained(each, of) and any(rows and axes for rows, axes in pairs)
        self.is_sharded |= is_meant or bool(sharding.manual)


def replicated_batch(
    module: Module,
    partitioned: Module,
    mesh: Mesh,
    batch: Mapping[str, int],
    weights: Collection[int],
) -> Iterator[Accident]:
    """Yields the largest array of a replicated batch, if the collectives move LEAST times the bytes
    of one over the axes that would move the fewest.

    A batch over axes of n devices divides what is moved now by n, and moves each device's part of
    the weights over the other axes PASSES times. One that a constraint shards is not replicated.

    Args:
        module: the program after propagation, before partitioning.
        partitioned: the program of one device after partitioning.
        mesh: names and sizes of the mesh axes.
        batch: path of each argument of the batch -> the number of its parameter.
        weights: numbers of the parameters that hold weights.
    """
    given = module.entry.parameters
    if not batch or _is_sharded(module, mesh, batch.values()):
        return
    path = max(batch, key=lambda path: given[batch[path]].shape.bytes)
    dims, moved = given[batch[path]].shape.dims, _moved(partitioned)
    held = sum(given[at].shape.bytes for at in weights)
    least = {
        axes: _least(parts, mesh, moved, held)
        for axes, parts in _axes(mesh)
        if dims and dims[0] % parts == 0
    }
    axes = min(least, key=lambda axes: least[axes], default=())
    if held and axes and moved >= LEAST * least[axes]:
        spec, work = padded((axes,), len(dims)), moved / held
        yield Accident(
            kind="replicated_batch", path=path, axes=axes, bytes=moved, work=work, spec=spec
        )


def _least(parts: int, mesh: Mesh, moved: int, held: int) -> float:
    """Bytes that a device moves with the batch in so many parts; `held`: those of all weights."""
    devices = math.prod(size for _, size in mesh)
    return (moved / parts if parts < devices else 0.0) + PASSES * held * parts / devices


def _is_sharded(module: Module, mesh: Mesh, batch: Collection[int]) -> bool:
    entry = module.entry
    for at in batch:
        sharding = sharding_of(entry.parameters[at], entry, mesh)
        if sharding is None or any(sharding.spec):
            return True
    rows = _Rows(module, mesh, is_meant=True)
    dims = [len(each.shape.dims) for each in entry.parameters]
    labels = [
        padded((("rows",),) if at in batch and rank else (), rank) for at, rank in enumerate(dims)
    ]
    rows.computation(entry, [[each] for each in labels])
    return rows.is_sharded


def _axes(mesh: Mesh) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yields the axes that a dim can be sharded over, and into how many parts."""
    large = [(axis, size) for axis, size in mesh if size > 1]
    for count in range(1, len(large) + 1):
        for some in combinations(large, count):
            yield tuple(axis for axis, _ in some), math.prod(size for _, size in some)


def _moved(partitioned: Module) -> int:
    """Bytes that a device sends in a step; an all-reduce sends twice, 0 where a count is unknown."""
    counted = [(each.start, each.count) for each in sites(partitioned)]
    if any(count is None for _, count in counted):
        return 0
    return sum(
        (count or 0) * start.bytes * (1 + (start.kind == "all-reduce")) for start, count in counted
    )

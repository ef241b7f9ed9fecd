"""What `shard_map` writes down as numbers of devices: the groups of its collectives, and a device's
index along an axis. They are rewritten where other axes, which it leaves to the compiler, change.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy, stablehlo

from spmd_core.engine.exported.allowed import operations
from spmd_core.fields import Axes, Mesh

_LISTED = ("replica_groups", "source_target_pairs")
_BY_HAND = frozenset(
    f"stablehlo.{name}"
    for name in (
        *("all_gather", "all_reduce", "all_to_all", "reduce_scatter", "collective_permute"),
        "collective_broadcast",
    )
)
# what `axis_index` is made of: where some axes are left to the compiler, it is in a region of its own
_INDEX = frozenset(
    (
        "stablehlo.partition_id",
        "stablehlo.constant",
        "stablehlo.divide",
        "stablehlo.remainder",
        "stablehlo.convert",
        "sdy.return",
    )
)
_Rows = Sequence[Sequence[int]]


class _Fixed(Exception):
    """Numbers of devices that have no meaning on another mesh."""


def fixed_axes(module: ir.Module, mesh: Mesh) -> Axes:
    """The axes whose sizes are part of the program: those that `shard_map` uses; every axis where
    what it communicates is not known for other sizes.
    """
    manual: dict[str, None] = {}
    for op in operations(module.operation):
        if op.name == "sdy.manual_computation" and any(
            each.operation.name not in _INDEX
            for block in op.regions[0]
            for each in block.operations
        ):
            axes = sdy.ManualAxesAttr(op.attributes["manual_axes"])
            manual |= dict.fromkeys(str(getattr(axis, "value", axis)) for axis in axes)
    kept = tuple(name for name, _ in mesh if name in manual)
    try:
        for op in operations(module.operation):
            _check(op, mesh, kept)
    except _Fixed:
        return tuple(name for name, _ in mesh)
    return kept


def renumber(module: ir.Module, before: Mesh, after: Mesh) -> None:
    """Rewrite the numbers of devices for other sizes of axes that are not fixed."""
    kept = tuple(name for (name, size), (_, now) in zip(before, after, strict=True) if size == now)
    for op in list(operations(module.operation)):
        for name in _LISTED:
            if op.name in _BY_HAND and name in op.attributes and (rows := _rows(op, name)):
                listed: Any = np.array(on_mesh(rows, before, after, kept), np.int64)
                with op.context:
                    op.attributes[name] = ir.DenseIntElementsAttr.get(listed)
        if op.name == "stablehlo.partition_id":
            for divided, axis in _indices(op, before):
                _divide_by(divided, _stride(after, axis))


def on_mesh(rows: _Rows, before: Mesh, after: Mesh, kept: Axes) -> list[list[int]]:
    """Groups or pairs of devices, alike at every place along the axes that are not kept, for other
    sizes of these. `_Fixed` where they are not alike, or span such an axis.

    >>> on_mesh([[0, 2], [1, 3]], (("x", 2), ("y", 2)), (("x", 2), ("y", 3)), ("x",))
    [[0, 3], [1, 4], [2, 5]]
    """
    own = [at for at, (name, _) in enumerate(before) if name in kept]
    free = [at for at in range(len(before)) if at not in own]
    shape = [size for _, size in before]
    by_place: dict[tuple[int, ...], list[tuple[tuple[int, ...], ...]]] = {
        place: [] for place in itertools.product(*(range(shape[at]) for at in free))
    }
    for row in rows:
        every = [np.unravel_index(device, shape) for device in row]
        places = {tuple(int(each[at]) for at in free) for each in every}
        if len(places) != 1:
            raise _Fixed
        inner = tuple(tuple(int(each[at]) for at in own) for each in every)
        by_place[places.pop()].append(inner)
    first, *others = by_place.values()
    if any(set(each) != set(first) for each in others):
        raise _Fixed
    moved, sizes = [], [size for _, size in after]
    for place in itertools.product(*(range(sizes[at]) for at in free)):
        for inner in first:
            coordinates = [dict(zip((*own, *free), (*each, *place), strict=True)) for each in inner]
            dims = ([each[at] for each in coordinates] for at in range(len(sizes)))
            moved.append(np.ravel_multi_index(tuple(dims), sizes).tolist())
    return moved


def _check(op: Any, mesh: Mesh, kept: Axes) -> None:
    """_Fixed where an operation's numbers hold on this mesh alone."""
    if op.name == "stablehlo.replica_id":
        raise _Fixed
    if op.name == "stablehlo.partition_id":
        if any(axis not in kept for _, axis in _indices(op, mesh)):
            raise _Fixed
    elif op.name in _BY_HAND:
        for name in _LISTED:
            if name in op.attributes and (rows := _rows(op, name)):
                on_mesh(rows, mesh, mesh, kept)


def _rows(op: Any, name: str) -> list[list[int]]:
    """Groups as numbers; [] where they are written as axes, which hold on any mesh."""
    if not isinstance(given := op.attributes[name], ir.DenseIntElementsAttr):
        return []
    return np.array(given).tolist()


def _indices(op: Any, mesh: Mesh) -> Iterator[tuple[Any, str]]:
    """The divisions of a device's number that give its index along an axis: by the devices that
    one step along it passes, then the rest by its size. _Fixed where it is used otherwise.
    """
    for use in op.results[0].uses:
        divided = use.owner
        stride = _constant(divided, "stablehlo.divide")
        sizes = {_constant(each.owner, "stablehlo.remainder") for each in divided.results[0].uses}
        axes = [name for name, size in mesh if (_stride(mesh, name), {size}) == (stride, sizes)]
        if not axes:
            raise _Fixed
        yield divided, axes[-1]


def _constant(op: Any, name: str) -> int:
    """What an operation of that name divides by."""
    by = getattr(op.operands[1].owner, "operation", None) if len(op.operands) == 2 else None
    if op.name != name or by is None or by.name != "stablehlo.constant":
        raise _Fixed
    return int(np.array(ir.DenseIntElementsAttr(by.attributes["value"])).reshape(-1)[0])


def _stride(mesh: Mesh, axis: str) -> int:
    """How far apart the numbers of neighbors along an axis are."""
    return math.prod(size for _, size in mesh[[name for name, _ in mesh].index(axis) + 1 :])


def _divide_by(op: Any, number: int) -> None:
    kind = op.operands[1].type
    element = ir.RankedTensorType(kind).element_type
    with ir.InsertionPoint(op), ir.Location.unknown(op.context):
        value = ir.DenseElementsAttr.get_splat(kind, ir.IntegerAttr.get(element, number))
        op.operands[1] = stablehlo.constant(value)

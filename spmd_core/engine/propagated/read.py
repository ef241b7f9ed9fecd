"""Reads the collectives of a module in which Shardy has made them explicit."""

import functools
import math
import operator
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from spmd_core.engine.exported.constrained import own_line
from spmd_core.experiment import Mesh
from spmd_core.program import axes_of
from spmd_core.results import Requested

_KINDS = ("all-gather", "all-reduce", "reduce-scatter", "all-to-all", "collective-permute")
_BY_SHARDY = {f"sdy.{kind.replace('-', '_')}": kind for kind in _KINDS}
_BY_HAND = {f"stablehlo.{kind.replace('-', '_')}": kind for kind in _KINDS}
_MOVED = {"all-gather": "gathering_axes", "reduce-scatter": "reduce_scatter_axes"}  # by dim
_LIST = re.compile(r"\{([^{}]*)\}(?:p\d+)?(?:: \d+->(\d+))?")
_AXIS = re.compile(r'"([^"]+)"(?::\((\d+)\)(\d+))?')
_NAMED = re.compile(r'axis_ref<name = "([^"]+)"')
Axis = tuple[str, int | None]  # its name, and its size where only a part of the axis is used


@dataclass(frozen=True)
class Reader:
    """Reads the collectives of ops.

    Attributes:
      mesh: names and sizes of the mesh axes.
      files: the source files of the program's author, as its locations name them.
      is_cpu: the collectives of CPUs carry no float narrower than 32 bits.
    """

    mesh: Mesh
    files: Sequence[str] = ()
    is_cpu: bool = False
    _gathered: set[object] = field(default_factory=set)

    def inside(self, op: Any, times: int | None = 1) -> Iterator[Requested]:
        """Yields the collectives in the regions of an op, which is executed so many times."""
        for region in op.regions:
            for block in region:
                for each in block.operations:
                    yield from self._of(each.operation, times)

    def _of(self, op: Any, times: int | None) -> Iterator[Requested]:
        if op.name in _BY_SHARDY and any(True for _ in op.results[0].uses):
            yield from self._by_shardy(op, times)
        elif op.name in _BY_HAND:
            yield self._by_hand(op, times)
        elif op.name == "stablehlo.while":
            count = trip_count(op)
            yield from self.inside(op, None if count is None or times is None else count * times)
        elif op.regions:
            yield from self.inside(op, times)

    def _by_shardy(self, op: Any, times: int | None) -> Iterator[Requested]:
        """One for each dim, minor dims first, as XLA has them: a gather grows with each."""
        kind = _BY_SHARDY[op.name]
        dims = _lists(op.attributes["out_sharding"])
        size = self._bytes(op.results[0].type, dims)
        if kind in _MOVED:
            moved = _lists(op.attributes[_MOVED[kind]])
            parts = [self._parts(axes) for axes in moved]
            grows = kind == "all-gather"
            size = size // math.prod(parts) if grows else size * math.prod(parts)
            for dim in reversed(range(len(moved))):
                size *= parts[dim] if grows else 1
                if moved[dim] and not (grows and self._is_known(op, dim, moved[dim], times)):
                    yield self._made(op, kind, _names(moved[dim]), size, times, dim)
                size //= 1 if grows else parts[dim]
        elif kind == "all-reduce":
            axes = _names(
                functools.reduce(operator.iadd, _lists(op.attributes["reduction_axes"]), [])
            )
            yield self._made(op, kind, axes, size, times)
        elif kind == "all-to-all":
            for match in _LIST.finditer(str(op.attributes["params"])):
                axes = tuple(axis[1] for axis in _AXIS.finditer(match[1]))
                yield self._made(op, kind, axes, size, times, int(match[2]))
        else:
            before = _sharding(op.operands[0]) or [[] for _ in dims]
            changed = [
                axis
                for one, other in zip(before, dims, strict=True)
                if one != other
                for axis in (*one, *other)
            ]
            yield self._made(op, kind, _names(changed), size, times)

    def _is_known(self, op: Any, dim: int, axes: list[Axis], times: int | None) -> bool:
        """Returns True of a gather that differs from an earlier one by a transposition: XLA folds
        these into products, and gathers once.
        """
        value = op.operands[0]
        while (maker := _defining(value)) is not None and maker.name == "stablehlo.transpose":
            dim = list(ir.DenseI64ArrayAttr(maker.attributes["permutation"]))[dim]
            value = maker.operands[0]
        key = value, dim, tuple(axes), times, str(op.attributes["out_sharding"]).count('"')
        is_known = key in self._gathered
        self._gathered.add(key)
        return is_known

    def _by_hand(self, op: Any, times: int | None) -> Requested:
        """A collective that a `shard_map` calls: its arrays are those of a device."""
        pairs = "source_target_pairs"
        groups = op.attributes[pairs if pairs in op.attributes else "replica_groups"]
        if named := _NAMED.findall(str(groups)):
            axes = tuple(named)
        else:
            axes = axes_of(np.array(ir.DenseIntElementsAttr(groups)), self.mesh)
        size = max(
            sum(self._bytes(value.type, None) for value in values)
            for values in (op.operands, op.results)
        )
        return self._made(op, _BY_HAND[op.name], axes, size, times)

    def _made(
        self,
        op: Any,
        kind: str,
        axes: tuple[str, ...],
        size: int,
        times: int | None,
        dim: int | None = None,
    ) -> Requested:
        sizes, array = dict(self.mesh), ir.RankedTensorType(op.results[0].type)
        words = f"{array.element_type}[{','.join(map(str, array.shape))}]"
        moved = "shards" if kind == "collective-permute" else "partial sums"
        return Requested(
            kind=kind,
            axes=tuple(name for name, _ in self.mesh if name in axes),
            bytes=size,
            count=times,
            source=own_line(str(op.location), self.files) or None,
            group_size=None
            if kind == "collective-permute"
            else math.prod(sizes[axis] for axis in axes),
            reason=f"{moved} of {words}" if dim is None else f"dim {dim} of {words}",
            dim=dim,
        )

    def _bytes(self, kind: Any, dims: list[list[Axis]] | None) -> int:
        """Bytes of an array on a device, with these axes on its dims."""
        kind = ir.RankedTensorType(kind)
        parts = [self._parts(axes) for axes in dims] if dims else [1] * kind.rank
        elements = math.prod(-(-size // by) for size, by in zip(kind.shape, parts, strict=True))
        return -(-elements * _bits(kind.element_type, self.is_cpu) // 8)

    def _parts(self, axes: list[Axis]) -> int:
        sizes = dict(self.mesh)
        return math.prod(sizes.get(name, 1) if part is None else part for name, part in axes)


def trip_count(op: Any) -> int | None:
    """Returns how often a `stablehlo.while` executes its body; None if that is not constant.

    A loop of JAX counts one carried integer up by one until it is a constant.
    """
    condition, _ = (region.blocks[0] for region in op.regions)
    test = _defining(list(condition.operations)[-1].operation.operands[0])
    if test is None or test.name != "stablehlo.compare":
        return None
    if "LT" not in str(test.attributes["comparison_direction"]):
        return None
    counter, last = test.operands
    place = next((at for at, each in enumerate(condition.arguments) if each == counter), None)
    if place is None:
        return None
    first, last = _constant(op.operands[place]), _constant(last)
    return None if first is None or last is None else max(0, last - first)


def _defining(value: Any) -> Any:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _constant(value: Any) -> int | None:
    op = _defining(value)
    if op is None or op.name not in ("sdy.constant", "stablehlo.constant"):
        return None
    try:
        return int(ir.DenseIntElementsAttr(op.attributes["value"])[0])
    except ValueError:
        return None


def _sharding(value: Any) -> list[list[Axis]] | None:
    """The axes of each dim of a value; None if no op has them."""
    op = _defining(value)
    if op is None:
        return None
    for name in ("out_sharding", "sharding"):
        if name in op.attributes:
            return _lists(op.attributes[name])
    if "sdy.sharding" not in op.attributes:
        return None
    each = re.findall(r"<@[^<>]*>", str(op.attributes["sdy.sharding"]))
    return _lists(each[list(op.results).index(value)])


def _lists(attribute: Any) -> list[list[Axis]]:
    """Lists of axes in braces, as attributes have them.

    >>> _lists('[{"data", "x":(2)2}, {}]')
    [[('data', None), ('x', 2)], []]
    """
    return [
        [(axis[1], int(axis[3]) if axis[3] else None) for axis in _AXIS.finditer(match[1])]
        for match in _LIST.finditer(str(attribute))
    ]


def _names(axes: Sequence[Axis]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name, _ in axes))


def _bits(element: Any, is_cpu: bool = False) -> int:
    """Bits of an element in memory.

    >>> _bits("complex<f32>"), _bits("bf16"), _bits("i1"), _bits("f8E4M3FN")
    (64, 16, 8, 8)
    """
    text = str(element)
    if is_cpu and text in ("bf16", "f16"):
        return 32
    if text.startswith("complex"):
        return 2 * _bits(text[8:-1])
    return 8 if text == "i1" else int(re.findall(r"\d+", text)[0])

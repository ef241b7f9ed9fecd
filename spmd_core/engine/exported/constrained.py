"""Constrains the value of a source line in the module of an exported program."""

import json
import re
from collections.abc import Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from spmd_core.base import refuse
from spmd_core.engine.exported.allowed import operations
from spmd_core.fields import Spec

_CONSTRAINT = "sdy.sharding_constraint"
_FRAME = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)')
_BACKWARD = (
    "transpose("  # in the names of a backward pass, whose lines are those of the forward one
)


def constrain(module: ir.Module, files: Sequence[str], source: str, spec: Spec) -> None:
    """Adds a with_sharding_constraint to the value of a line: the last array there of the spec's
    rank, in the forward pass, that other lines use. Constrains its cotangent, too, as JAX does, where
    one value of the backward pass is that. Of a line that constrains, its constraints get the spec.

    Args:
        module: the program. It is changed in place.
        files: the source files of its author, as its locations name them.
        source: `file:line`.
        spec: an entry for each dim of the value.

    Raises:
        RequestError: the line has no array of this rank.
    """
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    # main is the last, and an operation comes after those within it
    functions.sort(key=lambda op: ir.StringAttr(op.attributes["sym_name"]).value == "main")
    every = [op for function in functions for op in reversed([*operations(function)])]
    own = [op for op in every if own_line(str(op.location), files) == source]
    forward = [op for op in own if not _is_backward(op)]
    fitting = [op for op in own if _fits(op, len(spec))]
    constraints = [op for op in fitting if op.name == _CONSTRAINT]
    values = [op for op in fitting if op in forward]
    if not values and not constraints:
        raise refuse(
            f"spec of value {source}",
            f"finds no array of rank {len(spec)} on that line",
            "name another line, or give an entry for each dim",
        )
    dims = ", ".join(f"{{{', '.join(json.dumps(axis) for axis in axes)}}}" for axes in spec)
    sharding = ir.Attribute.parse(f"#sdy.sharding<@mesh, [{dims}]>")
    for each in constraints:
        each.attributes["sharding"] = sharding
    if not constraints:
        elsewhere = lambda op: any(  # noqa: E731
            use.owner.operation not in own and not _is_backward(use.owner)
            for use in op.results[0].uses
        )
        (value,) = next((op for op in reversed(values) if elsewhere(op)), values[-1]).results
        _hold([(value, forward), *((each, []) for each in _cotangents(own, value))], sharding)


def _hold(changed: Sequence[tuple[Any, Sequence[Any]]], sharding: ir.Attribute) -> None:
    """Constrains results of operations, but for their uses in some others each."""
    for value, kept in changed:
        op = value.owner.operation
        with ir.InsertionPoint.after(op), op.location:
            held = sdy.ShardingConstraintOp(value, sharding)
        for use in list(value.uses):
            if use.owner.operation not in (held.operation, *kept):
                use.owner.operands[use.operand_number] = held.result


def _cotangents(own: Sequence[Any], value: Any) -> list[Any]:
    """The cotangent of a value of these operations of a line; none where several may be."""
    entering = [
        each
        for op in own
        if _is_backward(op)
        for each in op.operands
        if each.type == value.type and not isinstance(each.owner, ir.Block)
        if each.owner.operation not in own and _is_backward(each.owner)
    ]
    return entering[:1] if all(each == entering[0] for each in entering) else []


def _is_backward(op: Any) -> bool:
    return _BACKWARD in str(op.location)


def _fits(op: Any, rank: int) -> bool:
    if len(op.results) != 1 or op.name == "stablehlo.constant":
        return False
    kind = op.results[0].type
    return isinstance(kind, ir.RankedTensorType) and ir.RankedTensorType(kind).rank == rank


def own_line(location: str, files: Sequence[str]) -> str:
    """Returns the innermost `file:line` of a location in the author's files; "" if it has none."""
    frames = ((match[1], match[2]) for match in _FRAME.finditer(location))
    own = (f"{file.rpartition('/')[2]}:{line}" for file, line in frames if file in files)
    return next(own, "")

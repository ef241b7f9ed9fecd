"""Constrains the value of a source line in the module of an exported program."""

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from spmd_core.base import refuse
from spmd_core.experiment import Spec

_FRAME = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+)')
_BACKWARD = (
    "transpose("  # in the names of a backward pass, whose lines are those of the forward one
)


def constrain(module: ir.Module, files: Sequence[str], source: str, spec: Spec) -> None:
    """Adds a with_sharding_constraint to the value of a line: the last array there of the spec's
    rank, in the forward pass.

    Args:
        module: the program. It is changed in place.
        files: the source files of its author, as its locations name them.
        source: `file:line`.
        spec: an entry for each dim of the value.

    Raises:
        RequestError: the line has no array of this rank.
    """
    values = [op for op in _operations(module) if _fits(op, files, source, len(spec))]
    if not values:
        raise refuse(
            f"spec of value {source}",
            f"finds no array of rank {len(spec)} on that line",
            "name another line, or give an entry for each dim",
        )
    value = values[-1].results[0]
    dims = ", ".join(f"{{{', '.join(json.dumps(axis) for axis in axes)}}}" for axes in spec)
    sharding = ir.Attribute.parse(f"#sdy.sharding<@mesh, [{dims}]>")
    with ir.InsertionPoint.after(values[-1]), values[-1].location:
        held = sdy.ShardingConstraintOp(value, sharding)
    value.replace_all_uses_except(held.result, held.operation)


def _operations(module: ir.Module) -> Iterator[Any]:
    """Every operation of the main function with its loops; then those of the other functions."""
    functions = [op.operation for op in module.body.operations if op.operation.name == "func.func"]
    is_main = lambda op: ir.StringAttr(op.attributes["sym_name"]).value == "main"  # noqa: E731
    for function in sorted(functions, key=is_main):
        yield from _inside(function)


def _inside(op: Any) -> Iterator[Any]:
    for region in op.regions:
        for block in region:
            for each in block.operations:
                yield from _inside(each.operation)
                yield each.operation


def _fits(op: Any, files: Sequence[str], source: str, rank: int) -> bool:
    """Whether an operation gives one array of a rank, on a line of the forward pass."""
    if len(op.results) != 1 or op.name in ("stablehlo.constant", "sdy.sharding_constraint"):
        return False
    if not isinstance(op.results[0].type, ir.RankedTensorType):
        return False
    text = str(op.location)
    return (
        ir.RankedTensorType(op.results[0].type).rank == rank
        and _BACKWARD not in text
        and own_line(text, files) == source
    )


def own_line(location: str, files: Sequence[str]) -> str:
    """Returns the innermost `file:line` of a location in the author's files; "" if it has none."""
    frames = ((match[1], match[2]) for match in _FRAME.finditer(location))
    own = (f"{file.rpartition('/')[2]}:{line}" for file, line in frames if file in files)
    return next(own, "")

"""Which dim each integer argument of a program indexes, so that what is drawn for it is within."""

import re
from typing import Any

from jaxlib.mlir import ir


def indexed(main: Any) -> dict[int, int]:
    """Number of an integer argument -> size of the dim that it indexes, where it goes into a gather
    by itself, through conversions and reshapes alone.
    """
    sizes: dict[int, int] = {}
    for number, argument in enumerate(main.arguments):
        if "i32" in str(argument.type) or "i8" in str(argument.type) or "ui" in str(argument.type):
            size = _smallest_gathered(argument)
            if size is not None:
                sizes[number] = size
    return sizes


_THROUGH = (
    "convert",
    "reshape",
    "broadcast_in_dim",
    "select",
    "add",
    "concatenate",
    "slice",
    "dynamic_slice",
    "transpose",
    "clamp",
    "maximum",
    "minimum",
    "optimization_barrier",
)


def _smallest_gathered(value: Any) -> int | None:
    """The smallest dim that a value indexes; None where it indexes none."""
    waiting, seen, sizes = [value], set(), []
    while waiting and len(seen) < 2000:
        at = waiting.pop()
        for use in at.uses:
            op = use.owner
            if hash(op) in seen:
                continue
            seen.add(hash(op))
            name = op.operation.name.removeprefix("stablehlo.")
            if name == "gather" and use.operand_number == 1:
                sizes.append(_indexed_dim(op))
            elif name in _THROUGH:
                waiting += list(op.operation.results)
    return min((size for size in sizes if size is not None), default=None)


def _indexed_dim(op: Any) -> int | None:
    numbers = re.search(
        r"start_index_map = \[(\d+)", str(op.operation.attributes["dimension_numbers"])
    )
    shape = ir.RankedTensorType(op.operation.operands[0].type).shape
    return int(shape[int(numbers[1])]) if numbers else None

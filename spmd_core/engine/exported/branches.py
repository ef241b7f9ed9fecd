"""The branch of one platform, in the place of the choice among several that a file holds. Nothing
else of the module changes: it compiles as the one that is exported for this platform alone.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxlib.mlir import ir

_NUMBER = "tensor<i32>"  # of a branch


def take_branches(module: ir.Module, chosen: ir.Value, number: int) -> None:
    """Put the operations of the branch that `number` chooses in the place of each `case` whose
    index is the value `chosen`, or what such a branch gives; also in functions and regions that it
    is passed to.
    """
    functions = ir.SymbolTable(module.operation)
    waiting, seen = [(chosen, number)], set[ir.Value]()
    while waiting:
        value, known = waiting.pop()
        while (case := _case_of(value)) is not None:
            waiting += _unwrap(case, known)
        if value in seen:
            continue
        seen.add(value)
        for use in list(value.uses):
            op = use.owner.operation
            if op.name == "stablehlo.convert":
                waiting.append((op.results[0], known))
            elif _is_constant(value):
                continue  # other calls of the function may pass another number
            elif op.name == "func.call":
                callee: Any = functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
                waiting.append((callee.entry_block.arguments[use.operand_number], known))
            elif op.name == "sdy.manual_computation":
                block = op.regions[0].blocks[0]
                waiting.append((block.arguments[use.operand_number], known))


def _case_of(value: ir.Value) -> ir.Operation | None:
    """A `case` whose index is a value; one at a time, since its branches may have others."""
    users = (use.owner.operation for use in value.uses)
    return next((op for op in users if op.name == "stablehlo.case"), None)


def _is_constant(value: ir.Value) -> bool:
    return getattr(getattr(value.owner, "operation", None), "name", "") == "stablehlo.constant"


def _unwrap(case: ir.Operation, number: int) -> Iterator[tuple[ir.Value, int]]:
    """Put a branch in the place of its `case`; the numbers that it gives."""
    last = len(case.regions) - 1
    branch = case.regions[number if 0 <= number <= last else last].blocks[0]
    *inner, returned = branch.operations
    for each in inner:
        each.operation.move_before(case)
    values = list(returned.operation.operands)
    for result, value in zip(case.results, values, strict=True):
        result.replace_all_uses_with(value)
    case.erase()
    for value in values:
        if _is_constant(value) and str(value.type) == _NUMBER:
            made = value.owner.operation
            yield value, int(np.array(ir.DenseIntElementsAttr(made.attributes["value"])))

"""Finds the arguments that each output of a program continues: an output that is its argument,
changed, such as new parameters, a moment or a cache. A gradient has the sizes of its parameter and
does not continue it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir

from spmd_core.engine.exported.allowed import operations
from spmd_core.workloads import Continued

_MOST = 4000  # values looked at for an output: updates are short, whatever the program's size
_BACKWARD = "transpose("  # in the names that JAX gives the operations of a backward pass
_LEAST = 0.5  # of an array that goes on: a gradient has less of its parameter, by weight decay
_SCALED = ("stablehlo.multiply", "stablehlo.divide")
_SUMS = ("stablehlo.add", "stablehlo.subtract")
_SUMMED: Any = (
    "summed"  # on the way: what is scaled beyond a sum is one of its terms, not all of it
)
# The operands whose values an operation keeps, changed or moved: their numbers, None for all
_KEPT: dict[str, slice] = {
    **dict.fromkeys(
        (
            *("stablehlo.add", "stablehlo.concatenate", "stablehlo.maximum", "stablehlo.minimum"),
            *(
                "stablehlo.all_gather",
                "stablehlo.broadcast_in_dim",
                "stablehlo.collective_permute",
                "stablehlo.convert",
            ),
            *("stablehlo.reduce_precision", "stablehlo.reshape", "stablehlo.reverse"),
            *("stablehlo.slice", "stablehlo.transpose", "sdy.all_gather", "sdy.reshard"),
            *("sdy.sharding_constraint", "stablehlo.collective_broadcast"),
        ),
        slice(None),
    ),
    **dict.fromkeys(
        (
            *("stablehlo.dynamic_slice", "stablehlo.gather", "stablehlo.pad"),
            *("stablehlo.scatter", "stablehlo.subtract"),
        ),
        slice(1),
    ),
    "stablehlo.dynamic_update_slice": slice(2),
    "stablehlo.clamp": slice(1, 2),
    "stablehlo.select": slice(1, 3),
}
_RESHAPED = (
    *("stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.reshape"),
    *("sdy.reshard", "sdy.sharding_constraint"),
)
_PLACING = ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")

_Calls = tuple[Any, ...]  # the calls that lead to a value, the outermost first


def continued(module: ir.Module, kept: Sequence[str]) -> list[dict[str, Continued]]:
    """Returns for each result of `main` the arguments that it continues, and how.

    Args:
        kept: the paths of the arguments that `main` has, its last ones.
    """
    is_trained = any(_BACKWARD in _name(op) for op in operations(module.operation))
    changed: Continued = "trained" if is_trained else "changed"
    functions = ir.SymbolTable(module.operation)
    main: Any = functions["main"]
    block = main.entry_block
    first = len(block.arguments) - len(kept)  # that of the platform is before them
    return [
        {
            kept[at - first]: changed if how == "changed" else how
            for at, how in _Backward(functions, block).of(value).items()
            if at >= first
        }
        for value in _returned(block)
    ]


class _Backward:
    """The values from which one result comes, back to the arguments of `main`."""

    def __init__(self, functions: ir.SymbolTable, block: Any) -> None:
        self.functions, self.block = functions, block

    def of(self, result: Any) -> dict[int, Continued]:
        """Returns the arguments that a result continues."""
        reached: dict[int, Continued] = {}
        waiting: list[tuple[Any, _Calls, Continued]] = [(result, (), "same")]
        seen = set[object]()
        while waiting and len(seen) < _MOST:
            value, calls, how = waiting.pop()
            if (value, calls, how) in seen:
                continue
            seen.add((value, calls, how))
            if isinstance(value.owner, ir.Block) and value.owner == self.block:
                number = ir.BlockArgument(value).arg_number
                if reached.get(number, "scaled") == "scaled":
                    reached[number] = "changed" if how == _SUMMED else how
                continue
            is_sum = getattr(_made_by(value), "name", "") in _SUMS
            for before, through, by in self._before(value, calls):
                waiting.append((before, through, _further(how, by == "scaled", is_sum)))
        return reached

    def _before(self, value: Any, calls: _Calls) -> Iterator[tuple[Any, _Calls, str]]:
        if isinstance(value.owner, ir.Block):
            yield from self._given(ir.BlockArgument(value), calls)
            return
        op, number = value.owner.operation, ir.OpResult(value).result_number
        name, operands = op.name, list(op.operands)
        if _BACKWARD in _name(op):
            return
        if name in _SCALED:
            for one, other in ((0, 1), (1, 0))[: 2 if name == "stablehlo.multiply" else 1]:
                how = _factor(operands[other], name == "stablehlo.divide")
                if how is not None:
                    yield operands[one], calls, how
        elif name == "func.call":
            callee: Any = self.functions[ir.FlatSymbolRefAttr(op.attributes["callee"]).value]
            yield _returned(callee.entry_block)[number], (*calls, op), ""
        elif name in ("stablehlo.case", "stablehlo.if", "sdy.manual_computation"):
            for region in op.regions:
                yield _returned(region.blocks[0])[number], calls, ""
        elif name == "stablehlo.while":
            yield operands[number], calls, ""
            yield _returned(op.regions[1].blocks[0])[number], calls, ""
        elif name == "stablehlo.optimization_barrier":
            yield operands[number], calls, ""
        elif name == "stablehlo.gather" and operands[0].type != value.type:
            return  # rows of a table, and no table
        elif name == "stablehlo.broadcast_in_dim" and not _is_reshape(operands[0], value):
            return
        elif name in _KEPT or (
            name == "stablehlo.custom_call" and op.attributes["call_target_name"].value in _PLACING
        ):
            for before in operands[_KEPT.get(name, slice(1))]:
                yield before, calls, ""

    def _given(
        self, argument: ir.BlockArgument, calls: _Calls
    ) -> Iterator[tuple[Any, _Calls, str]]:
        owner: Any = argument.owner.owner.operation
        if owner.name == "func.func":
            if calls:
                yield calls[-1].operands[argument.arg_number], calls[:-1], ""
        elif owner.name in ("stablehlo.while", "sdy.manual_computation"):
            yield owner.operands[argument.arg_number], calls, ""
            if owner.name == "stablehlo.while":
                yield _returned(owner.regions[1].blocks[0])[argument.arg_number], calls, ""


def _further(how: Continued, is_scaled: bool, is_sum: bool) -> Continued:
    if how == "scaled" or (is_scaled and how == _SUMMED):
        return "scaled"
    return _SUMMED if is_sum or how == _SUMMED else "changed"


def _factor(value: Any, is_divisor: bool) -> str | None:
    """Returns "" where a factor keeps most of what it scales, as 0.9 and 1 - 0.1 x do, "scaled"
    where it is a scalar that is not known, None else.
    """
    is_scalar = False
    while (op := _made_by(value)) is not None and op.name in _RESHAPED:
        value = op.operands[0]
        is_scalar = is_scalar or not ir.RankedTensorType(value.type).shape
    if (known := _number(op)) is not None:
        kept = 1 / known if is_divisor and known else known
        return "" if _LEAST <= kept <= 1 else None
    if op is not None and op.name == "stablehlo.subtract" and not is_divisor:
        one, rest = map(_made_by, op.operands)
        is_product = rest is not None and rest.name == "stablehlo.multiply"
        factors = [_number(_made_by(each)) or 1 for each in rest.operands] if rest else []
        if _number(one) == 1 and is_product and any(0 <= each <= _LEAST for each in factors):
            return ""
    return "scaled" if is_scalar or not ir.RankedTensorType(value.type).shape else None


def _number(op: ir.Operation | None) -> float | None:
    if op is None or op.name != "stablehlo.constant":
        return None
    try:
        held = op.attributes["value"]
    except TypeError:  # of a complex number, which MLIR's Python has no class for
        return None
    if not isinstance(held, (ir.DenseFPElementsAttr, ir.DenseIntElementsAttr)) or not held.is_splat:
        return None
    number: Any = held.get_splat_value()
    return float(number.value)


def _made_by(value: Any) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _is_reshape(before: Any, after: Any) -> bool:
    one, other = (ir.RankedTensorType(each.type).shape for each in (before, after))
    return [size for size in one if size != 1] == [size for size in other if size != 1]


def _name(op: Any) -> str:
    """The name that JAX gave an operation: its location's, of which `callsite` is the rest."""
    location = op.location
    # before JAX 0.10.1 each location has a `name_str`, which ends the process where it is no name
    is_name = getattr(location, "is_a_name", lambda: True)()
    return getattr(location, "name_str", "") if is_name else ""


def _returned(block: Any) -> list[Any]:
    return list(block.operations[len(block.operations) - 1].operation.operands)

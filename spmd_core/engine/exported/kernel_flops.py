"""The floating-point operations of a Pallas kernel for TPUs: the products of its body, in each
step of its grid in which they run.
"""

import base64
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax._src.lib import tpu  # pyright: ignore[reportPrivateImportUsage]
from jaxlib.mlir import ir, passmanager

_MOST_STEPS = 2**18  # of a grid by which one number differs: 2 MB
_COMPARED = (  # by the number of arith.cmpi
    np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal,
)  # fmt: skip
_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "arith.addi": np.add,
    "arith.subi": np.subtract,
    "arith.muli": np.multiply,
    "arith.divsi": lambda a, b: np.fix(a / b).astype(np.int64),
    "arith.floordivsi": np.floor_divide,
    "arith.remsi": np.fmod,
    "arith.minsi": np.minimum,
    "arith.maxsi": np.maximum,
    "arith.andi": np.bitwise_and,
    "arith.ori": np.bitwise_or,
    "arith.xori": np.bitwise_xor,
    "arith.select": np.where,
    "arith.extui": lambda a: a,
    "arith.extsi": lambda a: a,
    "arith.trunci": lambda a: a,
    "arith.index_cast": lambda a: a,
}
Table = np.ndarray | None


def kernel_flops(op: Any, tables: Sequence[Table]) -> int:
    """2 for each multiply-add of a kernel's products, where the steps of its grid that compute them
    are known; else what its author stated as `cost_estimate`, or 0.

    Args:
        op: the custom call.
        tables: its operands, where they are constants; a grid may read from them which of its
            steps compute.
    """
    try:
        text = ir.StringAttr(op.attributes["backend_config"]).value
        config = json.loads(text)["custom_call_config"]
        counted = _counted(base64.b64decode(config["body"]), tables)
    except (KeyError, TypeError, ValueError):
        return 0
    stated = config.get("cost_estimate") or {}
    return int(stated.get("flops", 0)) if counted is None else counted


def _counted(body: bytes, tables: Sequence[Table]) -> int | None:
    """None where the body cannot be read, has no products, or has a grid of unknown size."""
    with ir.Context() as context:
        tpu.register_dialect(context)
        context.allow_unregistered_dialects = True
        try:
            module = ir.Module.parse(body)
            serde = "builtin.module(mosaic-serde{serialize=false})"
            passmanager.PassManager.parse(serde).run(module.operation)
            function = module.body.operations[0].operation
            bounds = list(ir.DenseI64ArrayAttr(function.attributes["iteration_bounds"]))
            block = function.regions[0].blocks[0]
            if min(bounds, default=0) < 0 or not _has_product(block):  # a size that is data
                return None
            with np.errstate(all="ignore"):
                grid = _Grid(bounds, block, tables)
                return round(grid.flops(block, np.ones([1] * len(bounds))))
        except (_Unreadable, ir.MLIRError, KeyError, ValueError, IndexError, RecursionError):
            return None


def _has_product(block: Any) -> bool:
    inner = (b for op in block.operations for region in op.operation.regions for b in region)
    return any(op.operation.name == "tpu.matmul" for op in block.operations) or any(
        map(_has_product, inner)
    )


class _Unreadable(Exception):
    """An operation whose products cannot be counted."""


@dataclass
class _Grid:
    """The values of a kernel's integers in the steps of its grid: arrays that broadcast to it."""

    bounds: list[int]
    block: Any
    tables: Sequence[Table]
    values: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        arguments = list(self.block.arguments)
        self.values |= dict(zip(arguments, np.ogrid[tuple(map(slice, self.bounds))], strict=False))
        self.refs = dict(zip(arguments[len(self.bounds) :], self.tables, strict=False))

    def flops(self, block: Any, times: np.ndarray) -> float:
        """Those of a block that runs `times` in each step of the grid."""
        return sum(self.operation(each.operation, times) for each in block.operations)

    def operation(self, op: Any, times: np.ndarray) -> float:
        """Those of an operation with its regions; the values that it gives are kept."""
        match op.name:
            case "tpu.matmul":
                return _matmul(op) * float(times.sum()) * math.prod(self.bounds) / times.size
            case "vector.contract" | "func.call":
                raise _Unreadable(op.name)
            case "scf.if":
                return self._branches(op, times)
            case "scf.for":
                low, high, step = (self.values.get(each) for each in list(op.operands)[:3])
                if low is None or high is None or step is None:
                    return self.regions(op.regions, times)
                trips = np.maximum(-((low - high) // np.maximum(step, 1)), 0)
                return self.regions(op.regions, _times(times, trips))
        self._keep(op)
        return self.regions(op.regions, times)

    def _branches(self, op: Any, times: np.ndarray) -> float:
        """Those of an `scf.if`: of the larger side where data chooses."""
        condition = self.values.get(op.operands[0])
        if condition is None:
            return max(self.regions([side], times) for side in op.regions)
        taken = condition.astype(bool)
        sides = zip(op.regions, (taken, ~taken), strict=False)
        return sum(self.regions([side], _times(times, share)) for side, share in sides)

    def regions(self, regions: Any, times: np.ndarray) -> float:
        return sum(self.flops(block, times) for region in regions for block in region)

    def _keep(self, op: Any) -> None:
        given = [self.values.get(each) for each in op.operands]
        if op.name == "arith.constant":
            text = str(op.attributes["value"]).partition(" : ")[0]
            if text in ("true", "false") or text.lstrip("-").isdigit():
                number = ("false", "true").index(text) if text.isalpha() else int(text)
                self.values[op.results[0]] = np.full([1] * len(self.bounds), number)
            return
        table = self.refs.get(op.operands[0]) if op.name == "memref.load" else None
        if table is not None:
            given[0] = table
        if not given or any(each is None for each in given):
            return
        known: list[Any] = given
        if table is not None:
            self.values[op.results[0]] = _bounded(known[1:]) and table[tuple(known[1:])].astype(int)
        elif op.name == "arith.cmpi" and _bounded(known):
            number = ir.IntegerAttr(op.attributes["predicate"]).value
            compare = _COMPARED[number if number < 6 else number - 4]  # those of unsigned numbers
            self.values[op.results[0]] = compare(*known).astype(int)
        elif (compute := _ARITHMETIC.get(op.name)) is not None and _bounded(known):
            if op.name == "arith.select":
                known[0] = known[0].astype(bool)
            self.values[op.results[0]] = compute(*known)


def _bounded(given: Sequence[np.ndarray]) -> bool:
    return math.prod(np.broadcast_shapes(*(each.shape for each in given))) <= _MOST_STEPS


def _times(times: np.ndarray, share: np.ndarray) -> np.ndarray:
    if not _bounded([times, share]):
        raise _Unreadable("a grid of too many steps")
    return times * share


def _matmul(op: Any) -> int:
    left, result = (
        list(ir.VectorType(each.type).shape) for each in (op.operands[0], op.results[0])
    )
    numbers = re.search(r"<\[([\d, ]*)\]", str(op.attributes["dimension_numbers"]))
    contracted = [int(each) for each in re.findall(r"\d+", numbers[1] if numbers else "")]
    return 2 * math.prod(result) * math.prod(left[dim] for dim in contracted)

"""The floating-point operations of a program's products, convolutions, FFTs and kernels, read off
its module.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

from spmd_core.engine.exported.kernel_flops import kernel_flops
from spmd_core.engine.exported.module import Main
from spmd_core.engine.exported.products import (
    Symbolic,
    convolution_flops,
    dot_flops,
    fft_flops,
    made_by,
    ragged_flops,
)

_TRIPS = 1  # of a loop whose count the module does not give


def flops_of(module: ir.Module, platforms: Sequence[str] = ()) -> int:
    """Returns the FLOPs of one call over all devices, a multiply-add as two, in loops as often as
    they run; 0 where sizes are symbols.

    Args:
        module: the program. It is not changed.
        platforms: those that it has branches for: counted are those of an accelerator's. Of
            other branches the largest is counted.
    """
    counted: Any = module.operation
    if len(platforms) > 1:
        counted = counted.clone()
        best = next((each for each in platforms if each != "cpu"), platforms[0])
        Main(counted).choose_platform(platforms, best)
    every = [each.operation for each in counted.regions[0].blocks[0].operations]
    functions = {
        ir.StringAttr(op.attributes["sym_name"]).value: op for op in every if op.name == "func.func"
    }
    meshes = {
        ir.StringAttr(op.attributes["sym_name"]).value: sdy.MeshAttr(op.attributes["mesh"])
        for op in every
        if op.name == "sdy.mesh"
    }
    counter = _Counter(functions, meshes)
    try:
        return counter.function("main")
    except Symbolic:
        return 0


@dataclass
class _Counter:
    functions: Mapping[str, Any]
    meshes: Mapping[str, Any]
    known: dict[str, int] = field(default_factory=dict)
    given: dict[Any, Any] = field(default_factory=dict)  # of arguments, at a function's first call

    def function(self, name: str, operands: Sequence[Any] = ()) -> int:
        """Of a function by name; 0 of one that is not there, or calls itself."""
        if name not in self.known:
            self.known[name] = 0
            if name in self.functions and operands:
                block = self.functions[name].regions[0].blocks[0]
                self.given |= dict(zip(block.arguments, operands, strict=True))
            if name in self.functions:
                self.known[name] = self.regions(self.functions[name])
        return self.known[name]

    def regions(self, op: Any) -> int:
        """Of all that is in the regions of an operation."""
        return sum(self.region(region) for region in op.regions)

    def region(self, region: Any) -> int:
        """Of the operations of a region."""
        return sum(self.operation(each.operation) for block in region for each in block.operations)

    def operation(self, op: Any) -> int:
        """Of an operation with its regions."""
        match op.name:
            case "stablehlo.dot_general":
                return dot_flops(op)
            case "stablehlo.convolution":
                return convolution_flops(op)
            case "stablehlo.fft":
                return fft_flops(op)
            case "chlo.ragged_dot":
                return ragged_flops(op)
            case "stablehlo.composite":
                if ir.StringAttr(op.attributes["name"]).value == "chlo.ragged_dot":
                    return ragged_flops(op)
                return self.function(_symbol(op, "decomposition"))
            case "stablehlo.custom_call":
                return kernel_flops(op, [self.table(each) for each in op.operands])
            case "func.call":
                return self.function(_symbol(op, "callee"), list(op.operands))
            case "stablehlo.while":
                return trips(op) * self.regions(op)
            case "stablehlo.case" | "stablehlo.if":
                return max((self.region(region) for region in op.regions), default=0)
            case "sdy.manual_computation":
                inside = op.regions[0].blocks[0].arguments
                self.given |= dict(zip(inside, op.operands, strict=True))
                return self._manual(op) * self.regions(op)
        return self.regions(op) if len(op.regions) else 0

    def table(self, value: Any) -> np.ndarray | None:
        """The integers of a constant, also one that is passed to a function; None of others."""
        while value in self.given:
            value = self.given[value]
        made = made_by(value, "stablehlo.constant")
        if made is None or "i" not in str(ir.RankedTensorType(value.type).element_type):
            return None
        return np.array(ir.DenseIntElementsAttr(made.attributes["value"]))

    def _manual(self, op: Any) -> int:
        """How many devices each carry out what `shard_map` has for one of them."""
        axes = sdy.ManualAxesAttr(op.attributes["manual_axes"])
        names = {str(getattr(axis, "value", axis)) for axis in axes}
        shardings = sdy.TensorShardingPerValueAttr(op.attributes["in_shardings"]).shardings
        shardings = [*shardings] or [
            *sdy.TensorShardingPerValueAttr(op.attributes["out_shardings"]).shardings
        ]
        for each in shardings:
            place = sdy.TensorShardingAttr(each).mesh_or_ref
            mesh = (
                self.meshes.get(str(place)[1:].strip('"'))
                if str(place).startswith("@")
                else sdy.MeshAttr(place)
            )
            if mesh is not None:
                sizes = [sdy.MeshAxisAttr(axis) for axis in mesh.axes]
                return math.prod(axis.size for axis in sizes if axis.name in names)
        return 1


def _symbol(op: Any, name: str) -> str:
    return ir.FlatSymbolRefAttr(op.attributes[name]).value


def trips(op: Any) -> int:
    """How often a loop runs: `i < N` from a constant by a constant, as `scan` and `fori_loop` are
    written; 1 where it is another loop.
    """
    returned = list(op.regions[0].blocks[0].operations)[-1].operands[0].owner
    compared = getattr(returned, "operation", returned)
    if getattr(compared, "name", "") != "stablehlo.compare":
        return _TRIPS
    counted, last = compared.operands
    if not isinstance(counted.owner, ir.Block) or "LT" not in str(
        compared.attributes["comparison_direction"]
    ):
        return _TRIPS
    place = ir.BlockArgument(counted).arg_number
    end, start = _constant(last, op), _constant(op.operands[place], op)
    body = list(op.regions[1].blocks[0].operations)
    step = _constant(_added(body[-1].operands[place]), op)
    if end is None or start is None or not step or step < 0:
        return _TRIPS
    return max(-((start - end) // step), 0)


def _added(value: Any) -> Any:
    op = getattr(value.owner, "operation", None)
    return op.operands[1] if op is not None and op.name == "stablehlo.add" else value


def _constant(value: Any, loop: Any) -> int | None:
    """The number of a constant; of what a loop carries unchanged, that of what goes in."""
    if isinstance(value.owner, ir.Block):
        place = ir.BlockArgument(value).arg_number
        returned = list(loop.regions[1].blocks[0].operations)[-1].operands[place]
        is_carried = isinstance(returned.owner, ir.Block)
        outside = loop.operands[place]
        is_fixed = is_carried and not isinstance(outside.owner, ir.Block)
        return _constant(outside, loop) if is_fixed else None
    op = getattr(value.owner, "operation", value.owner)
    if op.name == "stablehlo.convert":
        return _constant(op.operands[0], loop)
    if op.name != "stablehlo.constant":
        return None
    if "i" not in str(ir.RankedTensorType(op.result.type).element_type):
        return None
    elements: Any = ir.DenseIntElementsAttr(op.attributes["value"])
    return int(elements[0]) if len(elements) == 1 else None

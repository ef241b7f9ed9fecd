"""The floating-point operations of a program's matrix products and convolutions, read off its
module.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import sdy

_TRIPS = 1  # of a loop whose count the module does not give


def flops_of(module: ir.Module) -> int:
    """Those of one call over all devices, a multiply-add as two, in loops as often as they run; of
    branches the largest, of kernels what they state. 0 where sizes are symbols.
    """
    functions = {
        ir.StringAttr(op.attributes["sym_name"]).value: op
        for op in (each.operation for each in module.body.operations)
        if op.name == "func.func"
    }
    meshes = {
        ir.StringAttr(op.attributes["sym_name"]).value: sdy.MeshAttr(op.attributes["mesh"])
        for op in (each.operation for each in module.body.operations)
        if op.name == "sdy.mesh"
    }
    counter = _Counter(functions, meshes)
    try:
        return counter.function("main")
    except _Symbolic:
        return 0


class _Symbolic(Exception):
    """A size that the module does not know."""


@dataclass
class _Counter:
    functions: Mapping[str, Any]
    meshes: Mapping[str, Any]
    known: dict[str, int] = field(default_factory=dict)

    def function(self, name: str) -> int:
        """Of a function by name; 0 of one that is not there, or calls itself."""
        if name not in self.known:
            self.known[name] = 0
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
                return _dot(op)
            case "stablehlo.convolution":
                return _convolution(op)
            case "stablehlo.custom_call":
                return _kernel(op)
            case "func.call":
                return self.function(ir.FlatSymbolRefAttr(op.attributes["callee"]).value)
            case "stablehlo.while":
                return trips(op) * self.regions(op)
            case "stablehlo.case" | "stablehlo.if":
                return max((self.region(region) for region in op.regions), default=0)
            case "sdy.manual_computation":
                return self._manual(op) * self.regions(op)
        return self.regions(op) if len(op.regions) else 0

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


def trips(op: Any) -> int:
    """How often a loop runs: `i < N` from a constant by a constant, as `scan` and `fori_loop` are
    written; 1 where it is another loop.
    """
    test = list(op.regions[0].blocks[0].operations)
    returned = test[-1].operands[0].owner
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
    """What is added to a loop's counter."""
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
    elements: Any = ir.DenseIntElementsAttr(op.attributes["value"])
    return int(elements[0]) if len(elements) == 1 else None


def _dot(op: Any) -> int:
    numbers = str(op.attributes["dot_dimension_numbers"])
    dims = _listed(numbers, "lhs_contracting_dimensions")
    left = _shape(op.operands[0])
    return 2 * math.prod(_shape(op.results[0])) * math.prod(left[dim] for dim in dims)


def _convolution(op: Any) -> int:
    """Each element of the result adds up the kernel's elements of one output feature; of a dilated
    input those that are no zeros between its elements.
    """
    numbers = str(op.attributes["dimension_numbers"])
    kernel, result = _shape(op.operands[1]), _shape(op.results[0])
    labels = numbers.partition("x[")[2].partition("]")[0].replace(" ", "").split(",")
    features = kernel[labels.index("o")]
    dilated = math.prod(_numbers(op, "lhs_dilation"))
    return 2 * math.prod(result) * math.prod(kernel) // max(features * dilated, 1)


def _numbers(op: Any, name: str) -> list[int]:
    """An attribute that is an array of numbers; [] where it is left out."""
    return list(ir.DenseI64ArrayAttr(op.attributes[name])) if name in op.attributes else []


def _kernel(op: Any) -> int:
    """The FLOPs that a Pallas kernel states in `cost_estimate`; 0 where it has none."""
    try:
        config = json.loads(ir.StringAttr(op.attributes["backend_config"]).value)
        return int(config["custom_call_config"]["cost_estimate"]["flops"])
    except (KeyError, TypeError, ValueError):
        return 0


def _listed(text: str, name: str) -> list[int]:
    listed = text.partition(f"{name} = [")[2].partition("]")[0]
    return [int(number) for number in listed.replace(" ", "").split(",") if number]


def _shape(value: Any) -> list[int]:
    shaped = ir.RankedTensorType(value.type)
    if not shaped.has_static_shape:
        raise _Symbolic
    return list(shaped.shape)

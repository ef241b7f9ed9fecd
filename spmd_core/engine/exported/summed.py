"""Sums of a program's module: added up in float64, and how far they may be off where every partial
sum is rounded to their dtype.
"""

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from spmd_core.engine.noise import Sums

# operations that XLA may carry out one term after the other; it reduces in float32 or wider
_STEPWISE = ("stablehlo.scatter", "stablehlo.reduce_window")
_WIDENED = frozenset(
    f"stablehlo.{name}" for name in ("add", "compare", "maximum", "minimum", "return", "select")
)


def is_sum(op: Any) -> bool:
    """Returns True if an operation adds up one array, with bodies that can be widened."""
    blocks = [region.blocks[0] for region in op.regions]
    bodies = [[each.operation.name for each in block.operations] for block in blocks]
    return (
        len(list(op.results)) == 1
        and all(_WIDENED.issuperset(names) for names in bodies)
        and "stablehlo.add" in bodies[-1]
    )


def is_stepwise(op: Any) -> bool:
    """Returns True if partial sums may be rounded at every term."""
    return op.name in _STEPWISE


def widen(op: Any) -> None:
    """Let an operation add up in float64; its result is float64 too."""
    kind, wide = op.results[0].type, ir.F64Type.get()
    narrow = ir.RankedTensorType(kind).element_type

    def is_narrow(value: Any) -> bool:
        return ir.RankedTensorType(value.type).element_type == narrow

    with ir.InsertionPoint(op):
        for place, value in enumerate(list(op.operands)):
            if is_narrow(value):
                op.operands[place] = stablehlo.convert(of_type(value.type, wide), value)
    for block in (region.blocks[0] for region in op.regions):
        results = (result for each in block.operations for result in each.operation.results)
        for value in filter(is_narrow, (*block.arguments, *results)):
            value.set_type(of_type(value.type, wide))
    op.results[0].set_type(of_type(kind, wide))


def sums_of(op: Any, total: Any, one: "Float64") -> Sums:
    """The sums of a widened operation whose result is `total`, at the insertion point; `one` is no
    constant, since XLA would fold what counts terms for seconds."""
    *_, last = range(len(list(op.operands)))
    terms, start = (0, 1) if op.name == "stablehlo.reduce_window" else (last, 0)
    given, first = op.operands[terms], op.operands[start]

    none = filled(first.type, 0.0)

    def again(array: Any) -> Float64:
        other = op.clone()
        other.operands[terms], other.operands[start] = array, none
        return Float64(other.results[0])

    beginning = Float64(first).like(total)
    return Sums(
        again(one.like(given).value),
        Float64(total) - beginning,
        again(stablehlo.abs(given)),
        again(stablehlo.multiply(given, given)),
        beginning,
    )


class Float64:
    """An array of float64 in a module, with operators; the functions are those of a namespace such
    as jax.numpy."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def like(self, array: Any) -> "Float64":
        """Itself, broadcast to the shape of an array if it is a scalar."""
        if self.value.type == array.type:
            return self
        none = ir.DenseI64ArrayAttr.get([])
        return Float64(stablehlo.broadcast_in_dim(array.type, self.value, none))

    def _by(self, operation: Any, other: "Float64 | float") -> "Float64":
        number = other if isinstance(other, Float64) else Float64(filled(self.value.type, other))
        return Float64(operation(self.value, number.value))

    def __add__(self, other: "Float64 | float") -> "Float64":
        return self._by(stablehlo.add, other)

    def __sub__(self, other: "Float64 | float") -> "Float64":
        return self._by(stablehlo.subtract, other)

    def __mul__(self, other: "Float64 | float") -> "Float64":
        return self._by(stablehlo.multiply, other)

    def __truediv__(self, other: "Float64 | float") -> "Float64":
        return self._by(stablehlo.divide, other)

    def maximum(self, other: "Float64 | float") -> "Float64":
        """The larger of both, element by element."""
        return self._by(stablehlo.maximum, other)

    def minimum(self, other: "Float64 | float") -> "Float64":
        """The smaller of both, element by element."""
        return self._by(stablehlo.minimum, other)

    def abs(self) -> "Float64":
        """Magnitudes."""
        return Float64(stablehlo.abs(self.value))

    def sign(self) -> "Float64":
        """1, 0 or -1."""
        return Float64(stablehlo.sign(self.value))

    def sqrt(self) -> "Float64":
        """Square roots."""
        return Float64(stablehlo.sqrt(self.value))


def of_type(kind: Any, element: Any) -> Any:
    """The type of an array of other elements."""
    return ir.RankedTensorType.get(ir.RankedTensorType(kind).shape, element)


def filled(kind: Any, number: float) -> Any:
    """A constant of one number; an integer as its bits."""
    element = ir.RankedTensorType(kind).element_type
    if isinstance(number, float):
        attribute: Any = ir.FloatAttr.get(element, number)
    else:
        signed = number - 2**64 if number >= 2**63 else number  # as the bindings take bits
        attribute = ir.IntegerAttr.get(element, signed)
    return stablehlo.constant(ir.DenseElementsAttr.get_splat(kind, attribute))

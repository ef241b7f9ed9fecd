"""A program's module with noise of the size of its rounding: on what each operation returns, and on
the terms of what it adds up, one by one and in blocks as devices would hold them.

The noise is a hash of the value's own bits and a seed, so that loops and equal values need no rule.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from spmd_core.base import refuse
from spmd_core.results import EPS

MOST_OPERATIONS = 5_000
_DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
_FUNCTIONS = (
    *("add", "subtract", "multiply", "divide", "power", "atan2", "remainder", "tan", "sine"),
    *("cosine", "exponential", "exponential_minus_one", "log", "log_plus_one", "logistic"),
    *("tanh", "sqrt", "rsqrt", "cbrt", "fft", "cholesky", "triangular_solve", "custom_call"),
    *("dot_general", "convolution"),
)
_ROUNDING = frozenset(f"stablehlo.{name}" for name in _FUNCTIONS)
# operations with a body that combines two values
_COMBINING = frozenset(
    f"stablehlo.{name}" for name in ("reduce", "reduce_window", "scatter", "select_and_scatter")
)
_ADDING = frozenset(("stablehlo.add", "stablehlo.multiply"))
# Noise is uniform, of mean 0 and mean square 1: 1 and -1 would cancel again and again
_WIDTH = 2 * math.sqrt(3)
_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64


def add_noise(module: ir.Module, blocks: int, coarse: float) -> None:
    """Change the module: its main function takes a seed, uint32, as its last argument. `blocks`:
    how many devices a sum may be split over; `coarse`: eps that products of float32 are rounded to.
    """
    main: Any = ir.SymbolTable(module.operation)["main"]
    rounding = [op for op in _listed(main.operation) if _rounds(op)]
    if len(rounding) > MOST_OPERATIONS:
        raise refuse(
            f"{len(rounding):,} operations",
            f"are more than {MOST_OPERATIONS:,}",
            "compare it yourself",
        )
    block = main.entry_block
    with ir.Location.unknown():
        given = ir.RankedTensorType.get((), ir.IntegerType.get_unsigned(32))
        seed = block.add_argument(given, ir.Location.unknown())
        with ir.InsertionPoint.at_block_begin(block):
            wide = stablehlo.convert(_of(given, ir.IntegerType.get_unsigned(64)), seed)
            wide = stablehlo.multiply(wide, _filled(wide.type, _ODD[0]))
        for number, op in enumerate(rounding):
            noise = _Noise(wide, number)
            for value, dims in _terms(op):
                noise.on_terms(op, value, dims, blocks, coarse)
            for result in op.results:
                noise.on_result(op, result)
        attributes = [*main.arg_attrs, ir.DictAttr.get({})]
        inputs = [argument.type for argument in block.arguments]
        kind = ir.FunctionType.get(inputs, list(main.type.results))
        main.attributes["function_type"] = ir.TypeAttr.get(kind)
        main.arg_attrs = ir.ArrayAttr.get(attributes)


def _listed(op: Any) -> Iterator[Any]:
    """The operations in an operation's regions, but for those in bodies that combine two values."""
    waiting = [op]
    while waiting:
        at = waiting.pop()
        yield at
        if at.name not in _COMBINING and at.name != "stablehlo.sort":
            for region in at.regions:
                for block in region.blocks:
                    waiting += [each.operation for each in block.operations]


def _rounds(op: Any) -> bool:
    if op.name in _COMBINING:
        bodies = (each.operation.name for each in op.regions[-1].blocks[0].operations)
        return any(name in _ADDING for name in bodies)
    if op.name == "stablehlo.convert":
        return _bits(op.operands[0]) > _bits(op.results[0]) > 0
    return op.name in _ROUNDING or op.name.startswith("chlo.")


def _bits(value: Any) -> int:
    """Bits of a float's element; 0 of other values."""
    of = _element(value)
    return {"f64": 64, "f32": 32}.get(of, 16 if of in _DTYPES else 0)


def _element(value: Any) -> str:
    shaped = ir.RankedTensorType
    return str(shaped(value.type).element_type) if isinstance(value.type, shaped) else ""


def _terms(op: Any) -> Iterator[tuple[int, Sequence[int]]]:
    """Operands that an operation adds up, by place, and the dims that it does so along."""
    if op.name == "stablehlo.dot_general":
        text = str(op.attributes["dot_dimension_numbers"])
        listed = text.partition("lhs_contracting_dimensions = [")[2].partition("]")[0]
        yield 0, [int(number) for number in listed.split(",") if number.strip()]
    elif op.name == "stablehlo.reduce":
        dims = list(ir.DenseI64ArrayAttr(op.attributes["dimensions"]))
        for place in range(len(list(op.operands)) // 2):
            yield place, dims
    elif op.name == "stablehlo.scatter":
        arrays = (len(list(op.operands)) - 1) // 2
        for place in range(arrays + 1, 2 * arrays + 1):
            yield place, ()
    elif op.name in ("stablehlo.convolution", "stablehlo.reduce_window"):
        yield 0, range(len(ir.RankedTensorType(op.operands[0].type).shape))


class _Noise:
    """Noise of one operation, drawn by the program's seed."""

    def __init__(self, seed: Any, number: int) -> None:
        self._seed, self._number = seed, number

    def on_result(self, op: Any, value: Any) -> None:
        """Let everything after an operation see its result with noise."""
        if (dtype := _DTYPES.get(_element(value))) is None:
            return
        with ir.InsertionPoint.after(op):
            exact = stablehlo.convert(_of(value.type, ir.F64Type.get()), value)
            moved = self._moved(exact, self._of_bits(exact), EPS[dtype])
            again = stablehlo.convert(value.type, moved)
        value.replace_all_uses_except(again, exact.owner.operation)

    def on_terms(
        self, op: Any, place: int, dims: Sequence[int], blocks: int, coarse: float
    ) -> None:
        """Let an operation add up terms with noise, each block of which along a dim is alike too."""
        value = op.operands[place]
        if (dtype := _DTYPES.get(_element(value))) is None:
            return
        shape = list(ir.RankedTensorType(value.type).shape)
        with ir.InsertionPoint(op):
            exact = stablehlo.convert(_of(value.type, ir.F64Type.get()), value)
            noise = self._of_bits(exact)
            for dim in dims:
                if shape[dim] > 1:
                    noise = stablehlo.add(noise, self._of_blocks(exact.type, dim, blocks))
            walk = EPS["float32"] * math.sqrt(math.prod(shape[dim] for dim in dims))
            eps = EPS[dtype] + walk + (coarse if dtype == "float32" else 0.0)
            op.operands[place] = stablehlo.convert(value.type, self._moved(exact, noise, eps))

    def _moved(self, exact: Any, noise: Any, eps: float) -> Any:
        by = stablehlo.multiply(noise, _filled(exact.type, eps))
        return stablehlo.add(exact, stablehlo.multiply(exact, by))

    def _of_bits(self, exact: Any) -> Any:
        """Noise for each element of an array of float64, by its bits."""
        bits = _of(exact.type, ir.IntegerType.get_unsigned(64))
        return self._hashed(exact.type, stablehlo.bitcast_convert(bits, exact))

    def _of_blocks(self, kind: Any, dim: int, blocks: int) -> Any:
        """Noise that is alike in each of some blocks along a dim."""
        size = ir.RankedTensorType(kind).shape[dim]
        bits_kind = _of(kind, ir.IntegerType.get_unsigned(64))
        place = stablehlo.iota(bits_kind, ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim))
        width = _filled(bits_kind, -(-size // min(blocks, size)))
        return self._hashed(kind, stablehlo.divide(place, width), dim + 1)

    def _hashed(self, kind: Any, bits: Any, dim: int = 0) -> Any:
        bits_kind = bits.type
        own = _filled(bits_kind, (self._number * 64 + dim + 1) * _ODD[1] % 2**64)
        seed = stablehlo.broadcast_in_dim(bits_kind, self._seed, ir.DenseI64ArrayAttr.get([]))
        mixed = stablehlo.add(stablehlo.xor(bits, own), seed)
        for odd, shift in zip(_ODD[1:], (30, 27), strict=True):
            shifted = stablehlo.shift_right_logical(mixed, _filled(bits_kind, shift))
            mixed = stablehlo.multiply(stablehlo.xor(mixed, shifted), _filled(bits_kind, odd))
        first = stablehlo.shift_right_logical(
            mixed, _filled(bits_kind, 11)
        )  # as many as a float64 holds
        scaled = stablehlo.multiply(
            stablehlo.convert(kind, first), _filled(kind, _WIDTH * 2.0**-53)
        )
        return stablehlo.subtract(scaled, _filled(kind, _WIDTH / 2))


def _of(kind: Any, element: Any) -> Any:
    """The type of an array of other elements."""
    return ir.RankedTensorType.get(ir.RankedTensorType(kind).shape, element)


def _filled(kind: Any, number: float) -> Any:
    element = ir.RankedTensorType(kind).element_type
    if isinstance(number, float):
        attribute: Any = ir.FloatAttr.get(element, number)
    else:
        signed = number - 2**64 if number >= 2**63 else number  # as the bindings take bits
        attribute = ir.IntegerAttr.get(element, signed)
    return stablehlo.constant(ir.DenseElementsAttr.get_splat(kind, attribute))

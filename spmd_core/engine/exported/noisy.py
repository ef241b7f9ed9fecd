"""A program's module with noise of the size of its rounding: on what each operation returns, and on
the terms of what it adds up, one by one and in blocks as devices would hold them.

The noise is a hash of the value's own bits and a seed, so that loops and equal values need no rule.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import func, stablehlo

from spmd_core.base import refuse
from spmd_core.engine.exported.allowed import operations
from spmd_core.engine.exported.summed import (
    Float64,
    filled,
    is_stepwise,
    is_sum,
    of_type,
    sums_of,
    widen,
)
from spmd_core.engine.noise import LEAST, rounding
from spmd_core.reference import EPS, ROUNDING

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
_CLOSED = _COMBINING | {"stablehlo.sort"}  # their bodies work on single values
_ADDING = frozenset(("stablehlo.add", "stablehlo.multiply"))
# operations that return 0 of operands that are not, where the result is too small for the dtype
_UNDERFLOWING = frozenset(("stablehlo.multiply", "stablehlo.divide", "stablehlo.convert"))
# Noise of mean 0 and mean square 1, its magnitude uniform from _LEAST on: 1 and -1 would cancel
# again and again, and less than half a last place would be rounded away again
_LEAST = 0.6
_WIDTH = math.sqrt(12 - 3 * _LEAST**2) - 3 * _LEAST  # of both signs
_ODD = (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64


class Levels(NamedTuple):
    """How much of each kind of noise there is, from 0 to 1: rounding; in sums that are rounded at
    every term, independent steps, and steps that round alike and lose, or gain, all they can."""

    noise: Any = 0.0
    walk: Any = 0.0
    loss: Any = 0.0
    gain: Any = 0.0


def add_noise(module: ir.Module, blocks: int, coarse: float) -> str | None:
    """Change the module: sums are of float64, and its main function takes a seed, uint32, and
    `Levels`, float32, as its last arguments, and returns last how many terms its longest sum has
    that is rounded at every term, float32. `blocks`: how many devices a sum may be split over;
    `coarse`: eps that products of float32 are rounded to.

    Returns:
        The dtype of such sums, of several the one that rounds most; None without any.
    """
    main: Any = ir.SymbolTable(module.operation)["main"]
    rounding = [op for op in operations(main.operation, _CLOSED) if _rounds(op)]
    if len(rounding) > MOST_OPERATIONS:
        raise refuse(
            f"{len(rounding):,} operations",
            f"are more than {MOST_OPERATIONS:,}",
            "compare it yourself",
        )
    stepwise: list[tuple[str, Any]] = []
    with ir.Location.unknown():
        seed, levels = _arguments(main)
        for number, op in enumerate(rounding):
            noise = _Noise(seed, number, levels, _is_in_loop(op), stepwise)
            for value, dims in _terms(op):
                noise.on_terms(op, value, dims, blocks, coarse)
            for result in op.results:
                noise.on_result(op, result)
        _return_also(main, [terms for _, terms in stepwise if terms is not None])
    return max((dtype for dtype, _ in stepwise), key=EPS.__getitem__, default=None)


def _arguments(main: Any) -> tuple[Any, Levels]:
    """A seed, mixed, and levels: further arguments of a function, as its body has them."""
    block, scalar = main.entry_block, ir.RankedTensorType.get
    kinds = [scalar((), ir.IntegerType.get_unsigned(32)), *[scalar((), ir.F32Type.get())] * 4]
    given = [block.add_argument(kind, ir.Location.unknown()) for kind in kinds]
    main.arg_attrs = ir.ArrayAttr.get([*main.arg_attrs, *[ir.DictAttr.get({})] * len(kinds)])
    with ir.InsertionPoint.at_block_begin(block):
        bits = scalar((), ir.IntegerType.get_unsigned(64))
        wide = stablehlo.convert(bits, given[0])
        wide = stablehlo.multiply(wide, filled(bits, _ODD[0]))
        f64 = scalar((), ir.F64Type.get())
        return wide, Levels(*(stablehlo.convert(f64, each) for each in given[1:]))


def _longest(counts: list[Any]) -> Any:
    scalar = ir.RankedTensorType.get((), ir.F64Type.get())
    longest = zero = filled(scalar, 0.0)
    for count in counts:
        dims = list(range(len(ir.RankedTensorType(count.type).shape)))
        reduced = stablehlo.ReduceOp([scalar], [count], [zero], dims)
        block = reduced.regions[0].blocks.append(scalar, scalar)
        with ir.InsertionPoint(block):
            stablehlo.return_([stablehlo.maximum(*block.arguments)])
        longest = stablehlo.maximum(longest, reduced.results[0])
    return stablehlo.convert(of_type(scalar, ir.F32Type.get()), longest)


def _return_also(main: Any, counts: list[Any]) -> None:
    """Let a function return the longest count too; its type follows its block."""
    block = main.entry_block
    *_, last = block.operations
    with ir.InsertionPoint(last):
        returned = [*last.operands, _longest(counts)]
        func.ReturnOp(returned)
    last.operation.erase()
    kinds = [[each.type for each in values] for values in (block.arguments, returned)]
    main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get(*kinds))
    main.attributes["res_attrs"] = ir.ArrayAttr.get([*main.result_attrs, ir.DictAttr.get({})])


def _is_in_loop(op: Any) -> bool:
    at = op.parent
    while at is not None and at.name != "func.func":
        if at.name == "stablehlo.while":
            return True
        at = at.parent
    return False


def _rounds(op: Any) -> bool:
    if op.name in _COMBINING:
        bodies = (each.operation.name for each in op.regions[-1].blocks[0].operations)
        return any(name in _ADDING for name in bodies)
    if op.name == "stablehlo.convert":
        return _bits(op.operands[0]) > _bits(op.results[0]) > 0
    return op.name in _ROUNDING or op.name.startswith("chlo.")


def _bits(value: Any) -> int:
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


def _sign(op: Any, result: Any) -> Float64:
    """The sign of a result, before it was rounded if it is a product, quotient or cast, at the
    insertion point."""
    sign = Float64(result).sign()
    if op.name not in _UNDERFLOWING:
        return sign
    first, *others = (Float64(stablehlo.convert(result.type, each)).sign() for each in op.operands)
    for each in others:
        first *= each
    return sign + (sign.abs() * -1.0 + 1.0) * first  # a quotient by 0 is infinite


class _Noise:
    """Noise of one operation, drawn by the program's seed."""

    def __init__(
        self, seed: Any, number: int, levels: Levels, in_loop: bool, sums: list[Any]
    ) -> None:
        self._seed, self._number, self._levels = seed, number, levels
        self._in_loop, self._sums = in_loop, sums

    def on_result(self, op: Any, value: Any) -> None:
        """Let everything after an operation see its result with noise, of a sum that of float64."""
        if (dtype := _DTYPES.get(_element(value))) is None:
            return
        kind = value.type
        if is_added := op.name in _COMBINING and is_sum(op):
            widen(op)
        with ir.InsertionPoint.after(op):
            exact = shifted = stablehlo.convert(of_type(kind, ir.F64Type.get()), value)
            if is_added and is_stepwise(op):
                shifted = self._stepwise(op, exact, dtype)
            noise = self._scaled(self._of_bits(shifted))
            moved = rounding(Float64(shifted), _sign(op, shifted), noise, dtype, Float64)
            again = stablehlo.convert(kind, moved.value)
        value.replace_all_uses_except(again, exact.owner.operation)

    def _stepwise(self, op: Any, exact: Any, dtype: str) -> Any:
        """A sum that is as far off as its levels."""
        noise, walking, losing, gaining = (Float64(each).like(exact) for each in self._levels)
        sums = sums_of(op, exact, Float64(self._levels.noise) * 0.0 + 1.0)
        walk, loss, gain = sums.kept_in(EPS[dtype], Float64)
        # float32 sums are expected to be added up so
        by = noise.maximum(walking) if dtype == "float32" else walking
        # what steps lose makes the partial sums smaller, and their roundings
        left = loss * losing / sums.total.abs().maximum(LEAST) * -1.0 + 1.0
        step = Float64(self._of_bits((walk + Float64(exact)).value)) * walk * by * left
        shift = (gain * gaining - loss * losing) * sums.total.sign()
        self._sums.append((dtype, sums.terms.value if op.parent.name == "func.func" else None))
        return (Float64(exact) + step + shift).value

    def on_terms(
        self, op: Any, place: int, dims: Sequence[int], blocks: int, coarse: float
    ) -> None:
        """Let an operation add up terms with noise, each block of which along a dim is alike too."""
        value = op.operands[place]
        if (dtype := _DTYPES.get(_element(value))) is None:
            return
        shape = list(ir.RankedTensorType(value.type).shape)
        with ir.InsertionPoint(op):
            exact = stablehlo.convert(of_type(value.type, ir.F64Type.get()), value)
            noise = self._of_bits(exact)
            for dim in dims:
                if shape[dim] > 1:
                    noise = stablehlo.add(noise, self._of_blocks(exact.type, dim, blocks))
            walk = EPS["float32"] * math.sqrt(math.prod(shape[dim] for dim in dims))
            eps = EPS[dtype] + walk + (coarse if dtype == "float32" else 0.0)
            moved = Float64(exact) * (self._scaled(noise) * eps + 1.0)
            op.operands[place] = stablehlo.convert(value.type, moved.value)

    def _scaled(self, noise: Any) -> Float64:
        level = Float64(self._levels.noise) * (ROUNDING if self._in_loop else 1.0)
        return Float64(noise) * level.like(noise)

    def _of_bits(self, exact: Any) -> Any:
        bits = of_type(exact.type, ir.IntegerType.get_unsigned(64))
        return self._hashed(exact.type, stablehlo.bitcast_convert(bits, exact))

    def _of_blocks(self, kind: Any, dim: int, blocks: int) -> Any:
        size = ir.RankedTensorType(kind).shape[dim]
        bits_kind = of_type(kind, ir.IntegerType.get_unsigned(64))
        place = stablehlo.iota(bits_kind, ir.IntegerAttr.get(ir.IntegerType.get_signless(64), dim))
        width = filled(bits_kind, -(-size // min(blocks, size)))
        return self._hashed(kind, stablehlo.divide(place, width), dim + 1)

    def _hashed(self, kind: Any, bits: Any, dim: int = 0) -> Any:
        bits_kind = bits.type
        own = filled(bits_kind, (self._number * 64 + dim + 1) * _ODD[1] % 2**64)
        seed = stablehlo.broadcast_in_dim(bits_kind, self._seed, ir.DenseI64ArrayAttr.get([]))
        mixed = stablehlo.add(stablehlo.xor(bits, own), seed)
        for odd, shift in zip(_ODD[1:], (30, 27), strict=True):
            shifted = stablehlo.shift_right_logical(mixed, filled(bits_kind, shift))
            mixed = stablehlo.multiply(stablehlo.xor(mixed, shifted), filled(bits_kind, odd))
        first = stablehlo.shift_right_logical(
            mixed, filled(bits_kind, 11)
        )  # as many as a float64 holds
        scaled = stablehlo.multiply(stablehlo.convert(kind, first), filled(kind, _WIDTH * 2.0**-53))
        uniform = Float64(scaled) - _WIDTH / 2
        return (uniform + uniform.sign() * _LEAST).value

"""The floating-point operations of single StableHLO operations: products, convolutions, FFTs."""

import math
import re
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from spmd_core.time import valid_positions

_RAGGED = "ragged_dot_dimension_numbers"
_MOVED = ("stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.transpose")


class Symbolic(Exception):
    """A size that the module does not know."""


def dot_flops(op: Any) -> int:
    """2 for each multiply-add of a `dot_general`. Of one that JAX writes for `ragged_dot` where a
    platform has none, which multiplies each row, or zeros in its place, by the matrix of every
    group, those of the row's own group.
    """
    numbers = str(op.attributes["dot_dimension_numbers"])
    dense = _product(op, _listed(numbers, "lhs_contracting_dimensions"))
    return dense // max(map(_masked_groups, op.operands))


def ragged_flops(op: Any) -> int:
    """2 for each multiply-add of a `chlo.ragged_dot`, by itself or as a composite: each row is
    multiplied by the matrix of its own group.
    """
    if "composite_attributes" in op.attributes:
        numbers = ir.DictAttr(op.attributes["composite_attributes"])[_RAGGED]
        lists = [_array(each).tolist() for each in ir.ArrayAttr(numbers)]
        contracted, ragged = lists[2], lists[4]
    else:
        text = str(op.attributes[_RAGGED])
        contracted = _listed(text, "lhs_contracting_dimensions")
        ragged = _listed(text, "lhs_ragged_dimensions")
    dense = _product(op, contracted)
    # rows that are summed over: the result has a dim of groups, and each row is of one of them
    return dense // shape_of(op.operands[2])[-1] if set(ragged) & set(contracted) else dense


def convolution_flops(op: Any) -> int:
    """2 for each multiply-add of a convolution: of window positions those that meet an element,
    rather than padding or a hole of a dilated input.
    """
    numbers = str(op.attributes["dimension_numbers"])
    left_at, right_at, out_at = (
        {label: dim for dim, label in enumerate(group.replace(" ", "").split(","))}
        for group in re.findall(r"\[([^\]]*)\]", numbers)
    )
    left, right = map(shape_of, op.operands)
    out = shape_of(op.results[0])
    dims = range(len(out) - 2)
    padding = _array(op.attributes["padding"]) if "padding" in op.attributes else None
    names = ("window_strides", "lhs_dilation", "rhs_dilation")
    steps = [_numbers(op, name) or [1] * len(out) for name in names]
    positions = (
        valid_positions(
            left[left_at[str(dim)]],
            right[right_at[str(dim)]],
            out[out_at[str(dim)]],
            0 if padding is None else int(padding[dim][0]),
            *(step[dim] for step in steps),
        )
        for dim in dims
    )
    once = 2 * out[out_at["b"]] * out[out_at["f"]] * right[right_at["i"]]
    return once * math.prod(positions)


def fft_flops(op: Any) -> int:
    """5 n log2 n for each transform of n elements; half of it where one side is real.

    Source: https://www.fftw.org/speed/method.html
    """
    size = math.prod(_numbers(op, "fft_length"))
    kind = str(op.attributes["fft_type"])
    elements = max(math.prod(map(int, shape_of(each))) for each in (op.operands[0], op.results[0]))
    each = 5.0 if not re.search(r"\bI?RFFT\b", kind) else 2.5
    return int(each * elements * math.log2(max(size, 1)))


def shape_of(value: Any) -> list[int]:
    """The sizes of an array; Symbolic where one is not known."""
    shaped = ir.RankedTensorType(value.type)
    if not shaped.has_static_shape:
        raise Symbolic
    return list(shaped.shape)


def made_by(value: Any, *names: str) -> Any:
    """The operation that gives a value, if it has one of these names; else None."""
    op = getattr(value.owner, "operation", None)
    return op if op is not None and op.name in names else None


def _product(op: Any, contracted: list[int]) -> int:
    left = shape_of(op.operands[0])
    return 2 * math.prod(shape_of(op.results[0])) * math.prod(left[dim] for dim in contracted)


def _masked_groups(operand: Any) -> int:
    """Groups of rows that an operand repeats, with zeros for the rows of other groups; 1 of any
    other operand. JAX expands the rows of a `ragged_dot` so: `select(starts <= iota & iota < ends,
    broadcast(rows), 0)`, where `ends` is a cumulative sum.
    """
    while transposed := made_by(operand, "stablehlo.transpose"):
        operand = transposed.operands[0]
    if (masked := made_by(operand, "stablehlo.select")) is None:
        return 1
    mask = made_by(masked.operands[0], "stablehlo.and")
    repeated = made_by(masked.operands[1], "stablehlo.broadcast_in_dim")
    compared = [made_by(each, "stablehlo.compare") for each in mask.operands] if mask else [None]
    if repeated is None or not all(compared):
        return 1
    sides = [_source(side) for each in compared if each for side in each.operands]
    if not any(map(_is_cumulative, sides)) or not any(made_by(s, "stablehlo.iota") for s in sides):
        return 1
    kept = _numbers(repeated, "broadcast_dimensions")
    added = [size for dim, size in enumerate(shape_of(operand)) if dim not in kept]
    return added[0] if len(added) == 1 else 1


def _source(value: Any) -> Any:
    while moved := made_by(value, *_MOVED):
        value = moved.operands[0]
    return value


def _is_cumulative(value: Any) -> bool:
    called = made_by(value, "func.call")
    is_named = called and "cumsum" in str(called.attributes["callee"])
    return bool(is_named or made_by(value, "stablehlo.reduce_window"))


def _numbers(op: Any, name: str) -> list[int]:
    """An attribute that is an array of numbers; [] where it is left out."""
    return list(ir.DenseI64ArrayAttr(op.attributes[name])) if name in op.attributes else []


def _array(attribute: Any) -> np.ndarray:
    return np.array(ir.DenseIntElementsAttr(attribute))


def _listed(text: str, name: str) -> list[int]:
    listed = text.partition(f"{name} = [")[2].partition("]")[0]
    return [int(number) for number in listed.replace(" ", "").split(",") if number]

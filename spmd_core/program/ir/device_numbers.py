"""The scalars that each device computes of its own number, such as where it puts a block."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from spmd_core.program.hlo.module import Instruction


def _divide(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.sign(one) * np.sign(other) * (np.abs(one) // np.abs(other))


def _remainder(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return one - other * _divide(one, other)


_Rule = Callable[..., np.ndarray]
_RULES: Mapping[str, _Rule] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "negate": np.negative,
    "abs": np.abs,
    "minimum": np.minimum,
    "maximum": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shift-left": np.left_shift,
    "divide": _divide,
    "remainder": _remainder,
    "select": np.where,
    "clamp": lambda low, value, high: np.clip(value, low, high),
    "convert": np.asarray,
}
_COMPARED: Mapping[str, _Rule] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_TRUTHS = {"true": True, "false": False}
_LONGEST = 1024  # turns of a scan that are counted
_LARGEST = 2**31  # what is beyond may wrap


def numbers_of(
    each: Instruction, operands: Sequence[np.ndarray | None], devices: int
) -> np.ndarray | None:
    """Returns the integer or truth that each device computes, or what a scan counts with, a row for
    each; None where that is not known.
    """
    element, of_scan = each.shape.element, _of_scan(each, operands, devices)
    if of_scan is not None:
        return of_scan
    if each.shape.dims or (element[:1] not in "su" and element != "pred"):
        return None
    if each.opcode == "partition-id":
        return np.arange(devices)
    if each.opcode == "constant":
        return _constant(each, devices)
    rule = _COMPARED.get(each.attributes.get("direction", ""), _RULES.get(each.opcode))
    if rule is None or not operands or any(one is None or one.ndim > 1 for one in operands):
        return None
    if each.opcode in ("divide", "remainder") and not np.all(operands[1]):
        return None
    value = rule(*operands)
    is_beyond = element != "pred" and (np.abs(value.astype(np.int64)) >= _LARGEST).any()
    is_wrapped = element[:1] == "u" and (value < 0).any()
    return None if is_beyond or is_wrapped else value


def _of_scan(
    each: Instruction, operands: Sequence[np.ndarray | None], devices: int
) -> np.ndarray | None:
    """The numbers from 0 on, the one of a turn, and that as a scalar."""
    dims = each.shape.dims
    if each.opcode == "iota" and len(dims) == 1 and dims[0] <= _LONGEST:
        return np.tile(np.arange(dims[0]), (devices, 1))
    given = [one for one in operands if one is not None]
    if len(given) < len(operands) or not given or given[0].ndim != 2:
        return None
    if each.opcode == "dynamic-slice" and dims == (1,):
        (rows, at), last = given, given[0].shape[1] - 1
        return np.take_along_axis(rows, np.clip(at, 0, last)[:, None], axis=1)
    return (
        given[0][:, 0] if each.opcode == "reshape" and given[0].shape[1] == 1 and not dims else None
    )


def _constant(each: Instruction, devices: int) -> np.ndarray | None:
    if each.argument in _TRUTHS:
        return np.full(devices, _TRUTHS[each.argument])
    is_integer = each.argument.lstrip("-").isdigit()
    return np.full(devices, int(each.argument)) if is_integer else None

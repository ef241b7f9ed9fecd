"""Sizes that are written as expressions of a program's symbols, such as `8*b`."""

import ast
import operator
from collections.abc import Mapping

from spmd_core.base import parsed, refuse, shorten

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}
_FUNCTIONS = {"floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min}
_MOST_POWER = 8
MOST = 2**63  # of a size, and of what it is computed from: a file chooses the expression


def size_of(expression: str, symbols: Mapping[str, int]) -> int:
    """The value of an expression, as `jax.export` writes them; RequestError where it is none, or
    not a size.
    """
    try:
        tree = (
            None if expression.isdecimal() else parsed(expression.replace("^", "**"), mode="eval")
        )
        value = int(expression) if tree is None else _value(tree.body, symbols)
    except (
        SyntaxError,
        KeyError,
        ValueError,
        TypeError,
        ArithmeticError,
        RecursionError,
        MemoryError,
    ):
        value = -1
    if not 0 <= value < MOST:
        given = ", ".join(f"{name}={size}" for name, size in symbols.items())
        raise refuse(f"size {shorten(expression)}", f"is none with {given}", "use other dims")
    return value


def _value(node: ast.expr, symbols: Mapping[str, int]) -> int:
    value = _computed(node, symbols)
    if abs(value) > MOST:
        raise OverflowError(value)
    return value


def _computed(node: ast.expr, symbols: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(op=ast.USub(), operand=of):
            return -_value(of, symbols)
        case ast.BinOp(left=left, op=op, right=right):
            values = _value(left, symbols), _value(right, symbols)
            if isinstance(op, ast.Pow) and not 0 <= values[1] <= _MOST_POWER:
                raise KeyError(values[1])
            return _OPERATORS[type(op)](*values)  # pyrefly: ignore[bad-index]
        case ast.Call(func=ast.Name(id=name), args=given):
            return _FUNCTIONS[name](*(_value(each, symbols) for each in given))
    raise KeyError(type(node).__name__)

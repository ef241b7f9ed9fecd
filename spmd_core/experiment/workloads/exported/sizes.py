"""Sizes that are written as expressions of a program's symbols, such as `8*b`."""

import ast
import operator
from collections.abc import Mapping

from spmd_core.base import refuse, shorten

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}
_FUNCTIONS = {"floordiv": operator.floordiv, "mod": operator.mod, "max": max, "min": min}
_MOST_POWER = 8


def size_of(expression: str, symbols: Mapping[str, int]) -> int:
    """The value of an expression, as `jax.export` writes them; RequestError where it is none, or
    not a size.
    """
    if expression.isdigit():
        return int(expression)
    try:
        value = _value(ast.parse(expression.replace("^", "**"), mode="eval").body, symbols)
    except (SyntaxError, KeyError, ZeroDivisionError, RecursionError):
        value = -1
    if value < 0:
        given = ", ".join(f"{name}={size}" for name, size in symbols.items())
        raise refuse(f"size {shorten(expression)}", f"is none with {given}", "use other dims")
    return value


def _value(node: ast.expr, symbols: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return symbols[name]
        case ast.UnaryOp(op=ast.USub(), operand=of):
            return -_value(of, symbols)
        case ast.BinOp(left=left, op=op, right=right):
            values = _value(left, symbols), _value(right, symbols)
            if isinstance(op, ast.Pow) and values[1] > _MOST_POWER:
                raise KeyError(values[1])
            return _OPERATORS[type(op)](*values)
        case ast.Call(func=ast.Name(id=name), args=given):
            return _FUNCTIONS[name](*(_value(each, symbols) for each in given))
    raise KeyError(type(node).__name__)

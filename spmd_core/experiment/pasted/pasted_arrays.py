"""Shape and dtype of the arrays in pasted code: in types as JAX prints them, and in calls that make
an array.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spmd_core.base import refuse
from spmd_core.experiment.pasted.names import Names
from spmd_core.experiment.types import Spec

MAX_RANK = 16
_MAKERS = ("zeros", "ones", "empty", "full", "ShapeDtypeStruct", "normal", "uniform", "reshape")
_SHORT = {"f": "float", "bf": "bfloat", "s": "int", "i": "int", "u": "uint"}
# float32[8@x,16@(y,z)], f32[8,16], bf16[8@x]
_TYPE = re.compile(r"\b(bfloat|float|bf|f|uint|u|int|i|s)(4|8|16|32|64)\[([^\[\]]*)\]", re.ASCII)
_DIM = re.compile(r"\s*(\d{1,15})\s*(?:@\s*(\w+|\([\w\s,]+\)))?\s*(?:,|$)", re.ASCII)
_DTYPE = re.compile(r"(?:bfloat|float|uint|int)(?:4|8|16|32|64)\Z", re.ASCII)


@dataclass(frozen=True, slots=True)
class PastedArray:
    """An array of pasted code; `dtype` is None where it names none, `spec` where it is no type with
    `@`.
    """

    shape: tuple[int, ...]
    dtype: str | None = None
    spec: Spec | None = None


def printed_arrays(text: str) -> Iterator[PastedArray]:
    """The array types in a text, as JAX prints them: `f32[8@x,16@y]`, `bfloat16[64,128]`."""
    for match in _TYPE.finditer(text):
        kind, bits, inside = match.groups()
        dims = _dims(inside)
        if dims is None:
            continue
        axes = tuple(
            tuple(part for part in re.split(r"[\s,()]+", entry or "") if part) for _, entry in dims
        )
        shape = tuple(size for size, _ in dims)
        yield PastedArray(shape, _SHORT.get(kind, kind) + bits, axes if any(axes) else None)


def _dims(inside: str) -> list[tuple[int, str]] | None:
    """Size and axes of each dim between the brackets; None where these hold something else."""
    dims, at = [], 0
    while at < len(inside):
        match = _DIM.match(inside, at)
        if match is None or match.end() == at:
            return None
        dims.append((int(match[1]), match[2]))
        at = match.end()
    if len(dims) > MAX_RANK:
        raise refuse(f"a shape of {len(dims)} dims", f"has more than {MAX_RANK}", "use fewer")
    return dims


def made_arrays(nodes: Sequence[ast.AST], names: Names) -> Iterator[tuple[int, PastedArray | None]]:
    """Yields the line and array of each call that makes one, `jnp.zeros((64, 128), jnp.bfloat16)`,
    in the order of the code; None where its shape is not written down.
    """
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    for call in sorted(calls, key=lambda node: (node.lineno, node.col_offset)):
        name = names.called(call)
        if name not in _MAKERS:
            continue
        given = [*call.args, *(word.value for word in call.keywords)]
        shape = next((shape for each in given if (shape := _sizes(each, names)) is not None), None)
        if shape is not None:
            dtype = next(filter(None, map(_dtype, map(names.value, given))), None)
            yield call.lineno, PastedArray(shape, dtype)
        elif name != "reshape":  # of an array of devices too
            yield call.lineno, None


def _sizes(node: ast.expr, names: Names) -> tuple[int, ...] | None:
    """A tuple of sizes; None for anything else."""
    sizes = names.constants(names.elements(node), int)
    return tuple(sizes) if sizes and len(sizes) <= MAX_RANK else None


def _dtype(node: ast.expr) -> str | None:
    names = (getattr(node, field, None) for field in ("attr", "value", "id"))
    name = next((name for name in names if isinstance(name, str)), None)
    return name if name and _DTYPE.match(name) else None

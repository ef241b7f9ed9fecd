"""Meshes, and shape and dtype of arrays, in pasted code: as JAX prints them, and in calls that make
them.
"""

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spmd_core.base import RequestError, refuse
from spmd_core.experiment.pasted.names import Names
from spmd_core.experiment.rules import check_mesh
from spmd_core.fields import Mesh, Spec

MESHES = ("make_mesh", "Mesh", "AbstractMesh")
_SIZES = {"make_mesh": "axis_shapes", "AbstractMesh": "axis_sizes", "Mesh": "devices"}
# of jax.experimental.mesh_utils: arrays of devices
_DEVICES = ("create_device_mesh", "create_hybrid_device_mesh")


def read_mesh(call: ast.Call, names: Names) -> Mesh:
    """Returns the axes and sizes of a mesh.

    Raises:
        RequestError: A size or an axis name is not written down in the text.
    """
    called = names.called(call)
    first = _argument(call, 0, _SIZES[called])
    pairs = _printed(first, names)
    if pairs is None:
        sizes = _of_devices(first, names) if called == "Mesh" else _integers(first, names)
        axes = _axis_names(_argument(call, 1, "axis_names"), names)
        if sizes is None or axes is None:
            raise _unread(call, names, "its axis sizes" if sizes is None else "its axis names")
        if len(sizes) != len(axes):
            raise _unread(call, names, f"as many names as sizes ({len(axes)} and {len(sizes)})")
        pairs = tuple(zip(axes, sizes, strict=True))
    check_mesh(pairs)
    return pairs


def makes_devices(node: ast.expr, names: Names) -> bool:
    """Returns True if an expression is an array of devices, which has no axis names."""
    node = names.value(node)
    return isinstance(node, ast.Call) and names.called(node) in (*_DEVICES, "reshape", "array")


def _unread(call: ast.Call, names: Names, missing: str) -> RequestError:
    return refuse(
        f"mesh {names.written(call)}",
        f"does not have {missing} in the text",
        "write numbers and names, such as make_mesh((2, 4), ('x', 'y'))",
    )


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    given = {word.arg: word.value for word in call.keywords}
    return call.args[position] if len(call.args) > position else given.get(name)


def _printed(node: ast.expr | None, names: Names) -> Mesh | None:
    """The mesh of pairs: as JAX prints a mesh, or `(("x", 2), ("y", 4))`."""
    node = None if node is None else names.value(node)
    if isinstance(node, ast.Dict):
        keys, values = [key for key in node.keys if key is not None], node.values
    else:
        each = [names.elements(one) for one in names.elements(node) or ()]
        pairs = [one for one in each if one is not None and len(one) == 2]
        if not pairs or len(pairs) != len(each):
            return None
        keys, values = [one[0] for one in pairs], [one[1] for one in pairs]
    axes, sizes = names.constants(keys, str), names.constants(values, int)
    if axes is None or sizes is None or len(axes) != len(sizes):
        return None
    return tuple(zip(axes, sizes, strict=True))


def _axis_names(node: ast.expr | None, names: Names) -> list[str] | None:
    node = None if node is None else names.value(node)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    return names.constants(names.elements(node), str) or None


def _integers(node: ast.expr | None, names: Names) -> list[int] | None:
    return names.constants(names.elements(node), int) or None


def _of_devices(node: ast.expr | None, names: Names) -> list[int] | None:
    node = None if node is None else names.value(node)
    if isinstance(node, ast.Subscript):
        to = node.slice
        from_first = isinstance(to, ast.Slice) and to.lower is None and to.step is None
        upper = to.upper if isinstance(to, ast.Slice) and from_first else None
        return None if upper is None else names.constants([upper], int)
    if not isinstance(node, ast.Call):
        return None
    called = names.called(node)
    if called in ("array", "asarray"):
        return _of_devices(_argument(node, 0, "object"), names)
    if called == "reshape":
        shape = node.args
        if len(shape) == 2 and (sizes := _integers(shape[1], names)) is not None:
            return sizes  # np.reshape(devices, (2, 4))
        if given := names.constants(shape, int):
            return given
        return _integers(shape[0], names) if len(shape) == 1 else None
    if called not in _DEVICES:
        return None
    sizes = _integers(_argument(node, 0, "mesh_shape"), names)
    if called == "create_device_mesh" or sizes is None:
        return sizes
    outer = _integers(_argument(node, 1, "dcn_mesh_shape"), names)
    if outer is None or len(outer) != len(sizes):
        return None
    return [one * two for one, two in zip(sizes, outer, strict=True)]


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
    sizes = names.constants(names.elements(node), int)
    return tuple(sizes) if sizes and len(sizes) <= MAX_RANK else None


def _dtype(node: ast.expr) -> str | None:
    names = (getattr(node, field, None) for field in ("attr", "value", "id"))
    name = next((name for name in names if isinstance(name, str)), None)
    return name if name and _DTYPE.match(name) else None

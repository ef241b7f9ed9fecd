"""Meshes of pasted code: axis names and sizes, where both are written down."""

import ast

from spmd_core.base import RequestError, refuse
from spmd_core.experiment.pasted.names import Names
from spmd_core.experiment.rules import check_mesh
from spmd_core.experiment.types import Mesh

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
        sizes = _of_devices(first, names) if called == "Mesh" else _sizes(first, names)
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


def _sizes(node: ast.expr | None, names: Names) -> list[int] | None:
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
        if len(shape) == 2 and (sizes := _sizes(shape[1], names)) is not None:
            return sizes  # np.reshape(devices, (2, 4))
        if given := names.constants(shape, int):
            return given
        return _sizes(shape[0], names) if len(shape) == 1 else None
    if called not in _DEVICES:
        return None
    sizes = _sizes(_argument(node, 0, "mesh_shape"), names)
    if called == "create_device_mesh" or sizes is None:
        return sizes
    outer = _sizes(_argument(node, 1, "dcn_mesh_shape"), names)
    if outer is None or len(outer) != len(sizes):
        return None
    return [one * two for one, two in zip(sizes, outer, strict=True)]

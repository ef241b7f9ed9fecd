"""A pasted line of code to specs and a mesh: read as syntax, never evaluated.

Read are `PartitionSpec(...)` or `P(...)`, a `NamedSharding(...)` that has one (also as JAX prints
it), a tuple of axis names, and any line with such a call in it: what it is assigned to, or the array
beside it, names it. A mesh is read off `make_mesh((2, 4), ("x", "y"))`, `AbstractMesh` or `Mesh`.
"""

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.experiment.types import Axes, Mesh, Spec

MAX_CHARACTERS = 4000
READ = "P('x', None), PartitionSpec(('x', 'y')), NamedSharding(mesh, P('x')) or a line with one"
_SPECS = ("P", "PartitionSpec")
_MESHES = ("make_mesh", "Mesh", "AbstractMesh")
_PLACING = ("device_put", "with_sharding_constraint", "reshard")
# as JAX prints a mesh: no Python, but for its pairs
_PRINTED = re.compile(r"Mesh\(((?:'[^'()]*': ?\d+(?:, ?)?)+)")


@dataclass(frozen=True, slots=True)
class Pasted:
    """What a text says: specs with the name of their array, "" where it names none; a mesh."""

    specs: tuple[tuple[str, Spec], ...]
    mesh: Mesh | None = None


def read_pasted(text: str) -> Pasted:
    """What a pasted text says; RequestError, in one sentence, where it has neither a spec nor a
    mesh.
    """
    tree = _parsed(text)
    specs = list(_specs(tree))
    mesh = next(
        (
            found
            for call in ast.walk(tree)
            if isinstance(call, ast.Call) and (found := _mesh(call)) is not None
        ),
        None,
    )
    if not specs and mesh is None:
        raise _no_spec(text)
    return Pasted(tuple(specs), mesh)


def read_spec(text: str) -> Spec:
    """The one spec that a text is; RequestError where it is none, or several."""
    found = read_pasted(text).specs
    if len(found) != 1:
        raise (
            _no_spec(text)
            if not found
            else refuse(shorten(text), f"has {len(found)} specs", "write one")
        )
    return found[0][1]


def spec_code(spec: Spec) -> str:
    """A spec as code, trailing replicated dims included.

    >>> spec_code((("x",), (), ("y", "z")))
    "P('x', None, ('y', 'z'))"
    """
    entries = [axes if len(axes) > 1 else next(iter(axes), None) for axes in spec]
    return f"P({', '.join(map(repr, entries))})"


def _no_spec(text: str) -> RequestError:
    return refuse(
        shorten(text, 60) if text.strip() else "an empty text",
        "has no PartitionSpec",
        f"write {READ}; it is read, not evaluated",
    )


def _parsed(text: str) -> ast.AST:
    if len(text) > MAX_CHARACTERS:
        raise refuse(
            f"a text of {len(text):,} characters",
            f"is longer than {MAX_CHARACTERS:,}",
            "paste the line with the PartitionSpec alone",
        )
    code = _PRINTED.sub(lambda match: f"Mesh({{{match[1].rstrip(', ')}}}, ", text.strip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _no_spec(text) from error


def _specs(tree: ast.AST) -> Iterator[tuple[str, Spec]]:
    """Specs in the order in which they are written; a statement's name is theirs."""
    for statement in getattr(tree, "body", ()):
        found = [
            node
            for node in ast.walk(statement)
            if isinstance(node, ast.Call) and _called(node) in _SPECS
        ]
        found.sort(key=lambda node: (node.lineno, node.col_offset))
        if not found and isinstance(statement, ast.Expr) and _is_axes(statement.value):
            yield "", tuple(map(_axes, statement.value.elts))  # pyright: ignore[reportAttributeAccessIssue]
        for node in found:
            yield _name(statement, node), _spec(node)


def _is_axes(node: ast.expr) -> bool:
    """Whether a bare tuple is of axis names: `('x', None)`."""
    return isinstance(node, ast.Tuple) and all(
        isinstance(each, (ast.Constant, ast.Tuple))
        and (
            not isinstance(each, ast.Constant) or each.value is None or isinstance(each.value, str)
        )
        for each in node.elts
    )


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _spec(node: ast.Call) -> Spec:
    if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
        raise refuse(shorten(ast.unparse(node), 60), "has more than axis names", f"write {READ}")
    return tuple(map(_axes, node.args))


def _axes(node: ast.expr) -> Axes:
    """Mesh axes of one entry: None, a name, or a tuple of names."""
    if isinstance(node, ast.Constant) and node.value is None:
        return ()
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (node.value,)
    if isinstance(node, (ast.Tuple, ast.List)) and all(
        isinstance(each, ast.Constant) and isinstance(each.value, str) for each in node.elts
    ):
        return tuple(each.value for each in node.elts)  # pyright: ignore[reportAttributeAccessIssue,reportReturnType]
    raise refuse(
        f"entry {shorten(ast.unparse(node), 40)} of a PartitionSpec",
        "is no axis name, and nothing is evaluated",
        "write None, a name such as 'x', or a tuple of names",
    )


def _name(statement: ast.stmt, spec: ast.Call) -> str:
    """What a spec is for: the array placed by the call around it, else what is assigned to."""
    for node in ast.walk(statement):
        if (
            isinstance(node, ast.Call)
            and _called(node) in _PLACING
            and node.args
            and isinstance(node.args[0], ast.Name)
            and spec in ast.walk(node)
        ):
            return node.args[0].id
        if (
            isinstance(node, ast.keyword)
            and node.arg
            and node.value is spec
            and node.arg not in ("spec", "out_sharding", "partition_spec")
        ):
            return node.arg
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _mesh(call: ast.Call) -> Mesh | None:
    """Axes and sizes of a mesh where both are written down."""
    if _called(call) not in _MESHES or not call.args:
        return None
    first = call.args[0]
    if isinstance(first, ast.Dict):
        keys, values = first.keys, first.values
        names = _texts(tuple(key for key in keys if key is not None))
        return _pairs(names, _numbers(values))
    given = {word.arg: word.value for word in call.keywords}
    second = call.args[1] if len(call.args) > 1 else given.get("axis_names")
    if isinstance(first, ast.Call) and _called(first) == "reshape":  # of an array of devices
        sizes = (
            first.args[0].elts
            if len(first.args) == 1 and isinstance(first.args[0], ast.Tuple)
            else first.args
        )
    else:
        sizes = first.elts if isinstance(first, (ast.Tuple, ast.List)) else ()
    names = second.elts if isinstance(second, (ast.Tuple, ast.List)) else ()
    return _pairs(_texts(names), _numbers(sizes))


def _pairs(names: list[str] | None, sizes: list[int] | None) -> Mesh | None:
    if not names or not sizes or len(names) != len(sizes):
        return None
    return tuple(zip(names, sizes, strict=True))


def _texts(nodes: list[ast.expr] | tuple[ast.expr, ...]) -> list[str] | None:
    found = [each.value for each in nodes if isinstance(each, ast.Constant)]
    return (
        [str(each) for each in found]
        if len(found) == len(nodes) and all(isinstance(each, str) for each in found)
        else None
    )


def _numbers(nodes: list[ast.expr] | tuple[ast.expr, ...]) -> list[int] | None:
    found = [each.value for each in nodes if isinstance(each, ast.Constant)]
    whole = [each for each in found if isinstance(each, int) and not isinstance(each, bool)]
    return whole if len(whole) == len(nodes) else None

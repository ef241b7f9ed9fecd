"""A pasted line of code to specs, a mesh and arrays: read as syntax, never evaluated.

Read are `PartitionSpec(...)` or `P(...)`, a `NamedSharding(...)` that has one (also as JAX prints
it), a tuple of axis names, and any line with such a call in it: what it is assigned to, or the
array beside it, names it. A mesh is read off `make_mesh((2, 4), ("x", "y"))`, `AbstractMesh` or
`Mesh`; shape and dtype off `jnp.zeros((64, 128), jnp.bfloat16)` and the like, or off a type as JAX
prints it, `f32[8@x,16@y]`, which has its spec.
"""

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spmd_core.base import RequestError, parsed, refuse, shorten
from spmd_core.experiment.pasted_shapes import PastedArray, made_arrays, printed_arrays
from spmd_core.experiment.rules import check_axis, check_mesh
from spmd_core.experiment.types import Axes, Mesh, Spec

MAX_CHARACTERS = 4000
MAX_BRACKETS = 24  # one inside the other
MAX_MARKS = 400  # operators and brackets: a chain of them is as deep as it is long
MAX_DEPTH = 60  # levels of syntax
READ = "P('x', None), PartitionSpec(('x', 'y')), NamedSharding(mesh, P('x')) or a line with one"
_MARKS = re.compile(r"[-+*/%@&|^~(\[{:]|\b(?:not|if|else|await|yield|and|or|in|is)\b")
_SPECS = ("P", "PartitionSpec")
_MESHES = ("make_mesh", "Mesh", "AbstractMesh")
_PLACING = ("device_put", "with_sharding_constraint", "reshard")
_OF_SPECS = ("spec", "out_sharding", "partition_spec")  # keywords that name no array
# as JAX prints a mesh: no Python, but for its pairs
_PRINTED = re.compile(r"Mesh\(((?:'[^'()]*': ?\d+(?:, ?)?)+)")


@dataclass(frozen=True, slots=True)
class Pasted:
    """What a text has: specs with the name of their array, "" where it names none; a mesh; arrays."""

    specs: tuple[tuple[str, Spec], ...]
    mesh: Mesh | None = None
    arrays: tuple[PastedArray, ...] = ()


def read_pasted(text: str) -> Pasted:
    """What a pasted text has; RequestError, in one sentence, where it has no spec, mesh or array."""
    _check_length(text)
    printed = tuple(printed_arrays(text))
    if specs := tuple(("", each.spec) for each in printed if each.spec is not None):
        for axis in (axis for _, spec in specs for axes in spec for axis in axes):
            check_axis(axis)
        return Pasted(specs, arrays=printed)
    tree, code = _parsed(text)
    specs = list(_specs(tree, code))
    mesh = next(
        (
            pasted
            for call in ast.walk(tree)
            if isinstance(call, ast.Call) and (pasted := _mesh(call)) is not None
        ),
        None,
    )
    arrays = tuple(made_arrays(tree)) or printed
    if not specs and mesh is None and not arrays:
        raise _no_spec(text)
    return Pasted(tuple(specs), mesh, arrays)


def read_spec(text: str) -> Spec:
    """The one spec that a text is; RequestError where it is none, or several."""
    specs = read_pasted(text).specs
    if len(specs) != 1:
        raise (
            _no_spec(text)
            if not specs
            else refuse(shorten(text), f"has {len(specs)} specs", "write one")
        )
    return specs[0][1]


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


def _check_length(text: str) -> None:
    if len(text) > MAX_CHARACTERS:
        raise refuse(
            f"a text of {len(text):,} characters",
            f"is longer than {MAX_CHARACTERS:,}",
            "paste the line with the PartitionSpec alone",
        )


def _parsed(text: str) -> tuple[ast.AST, str]:
    """The syntax of a text, and the code that it was read from; size and depth are bounded before
    and after Python's parser, which spends long on some texts.
    """
    if _brackets(text) > MAX_BRACKETS or len(_MARKS.findall(text)) > MAX_MARKS:
        raise _too_much(text)
    code = _PRINTED.sub(lambda match: f"Mesh({{{match[1].rstrip(', ')}}}, ", text.strip())
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = parsed(code)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _no_spec(text) from error
    if _is_deep(tree):
        raise _too_much(text)
    return tree, code


def _too_much(text: str) -> RequestError:
    return refuse(
        shorten(text),
        "has too many brackets or operators to be read",
        "paste the line with the PartitionSpec alone",
    )


def _brackets(text: str) -> int:
    """How deep brackets are nested, counting those inside of texts too."""
    depth = deepest = 0
    for character in text:
        depth += (character in "([{") - (character in ")]}" and depth > 0)
        deepest = max(deepest, depth)
    return deepest


def _is_deep(tree: ast.AST) -> bool:
    """Whether a syntax tree has more than `MAX_DEPTH` levels; without recursion."""
    level = [tree]
    for _ in range(MAX_DEPTH):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return False
    return True


def _specs(tree: ast.AST, code: str) -> Iterator[tuple[str, Spec]]:
    """Specs in the order in which they are written, with the name of what they are for."""
    for statement in getattr(tree, "body", ()):
        calls = sorted(_spec_calls(statement), key=lambda each: each[0])
        if not calls and isinstance(statement, ast.Expr) and _is_axes(statement.value):
            yield "", tuple(_axes(each, code) for each in statement.value.elts)  # pyright: ignore[reportAttributeAccessIssue]
        for _, name, node in calls:
            yield name, _spec(node, code)


def _spec_calls(statement: ast.stmt) -> Iterator[tuple[tuple[int, int], str, ast.Call]]:
    """Place, name and call of each spec in a statement. It is for the array that the outermost call
    around it places, else for what the keyword is called, else for what is assigned to.
    """
    targets = statement.targets if isinstance(statement, ast.Assign) else ()
    assigned = targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""
    waiting: list[tuple[ast.AST, str, str]] = [(statement, "", "")]
    while waiting:
        node, placed, named = waiting.pop()
        if isinstance(node, ast.Call):
            if _called(node) in _SPECS:
                yield (node.lineno, node.col_offset), placed or named or assigned, node
            first = node.args[0] if node.args and _called(node) in _PLACING else None
            placed = placed or (first.id if isinstance(first, ast.Name) else "")
        named = (
            node.arg or "" if isinstance(node, ast.keyword) and node.arg not in _OF_SPECS else ""
        )
        waiting += [(child, placed, named) for child in ast.iter_child_nodes(node)]


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


def _spec(node: ast.Call, code: str) -> Spec:
    if node.keywords or any(isinstance(each, ast.Starred) for each in node.args):
        raise refuse(_written(node, code), "has more than axis names", f"write {READ}")
    return tuple(_axes(each, code) for each in node.args)


def _written(node: ast.expr, code: str) -> str:
    """The code of a node, to be quoted unchanged, since a number of thousands of digits
    cannot be written anew.
    """
    return shorten(ast.get_source_segment(code, node) or "")


def _axes(node: ast.expr, code: str) -> Axes:
    """Mesh axes of one entry: None, a name, or a tuple of names."""
    if isinstance(node, ast.Constant) and node.value is None:
        return ()
    names = _texts(node.elts if isinstance(node, (ast.Tuple, ast.List)) else [node])
    if names is not None:
        for name in names:
            check_axis(name)
        return tuple(names)
    raise refuse(
        f"entry {_written(node, code)} of a PartitionSpec",
        "is no axis name, and nothing is evaluated",
        "write None, a name such as 'x', or a tuple of names",
    )


def _mesh(call: ast.Call) -> Mesh | None:
    """Axes and sizes of a mesh where both are written down."""
    if _called(call) not in _MESHES or not call.args:
        return None
    first = call.args[0]
    if isinstance(first, ast.Dict):
        keys, values = first.keys, first.values
        return _pairs(_texts([key for key in keys if key is not None]), _numbers(values))
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
    pairs = tuple(zip(names, sizes, strict=True))
    check_mesh(pairs)
    return pairs


def _texts(nodes: Sequence[ast.expr]) -> list[str] | None:
    constants = [each.value for each in nodes if isinstance(each, ast.Constant)]
    return (
        [str(each) for each in constants]
        if len(constants) == len(nodes) and all(isinstance(each, str) for each in constants)
        else None
    )


def _numbers(nodes: Sequence[ast.expr]) -> list[int] | None:
    constants = [each.value for each in nodes if isinstance(each, ast.Constant)]
    numbers = [each for each in constants if isinstance(each, int) and not isinstance(each, bool)]
    return numbers if len(numbers) == len(nodes) else None

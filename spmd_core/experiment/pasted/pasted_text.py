"""Pasted code to specs, a mesh and arrays, with a receipt by line: read as syntax, never evaluated.

Read are `PartitionSpec(...)` under any name that the text imports or assigns it to, a
`NamedSharding(...)` that has one (also as JAX prints it), a tuple of axis names, and any line with
such a call in it: the array beside it, or what it is assigned to, names it. A mesh is read off
`make_mesh((2, 4), ("x", "y"))`, `AbstractMesh` or `Mesh`, also of devices in a variable; shape and
dtype off `jnp.zeros((64, 128), jnp.bfloat16)` and the like, or off a type as JAX prints it,
`f32[8@x,16@y]`, which has its spec. What is not written down in the text is named, not guessed.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.experiment.pasted.names import Names, names_of
from spmd_core.experiment.pasted.pasted_arrays import (
    MESHES,
    PastedArray,
    made_arrays,
    makes_devices,
    printed_arrays,
    read_mesh,
)
from spmd_core.experiment.pasted.pasted_syntax import check_length, no_spec, syntax_of
from spmd_core.experiment.pasted.specs import SpecAt, axes_of_tuple, specs_of
from spmd_core.experiment.rules import check_axis
from spmd_core.fields import Mesh, Spec


@dataclass(frozen=True, slots=True)
class PastedLine:
    """What was read at a line, from 1, of a text; or the refusal of what was not. `written`: the
    line of a spec that is used at another.
    """

    line: int
    kind: Literal["mesh", "spec", "array"]
    words: str
    problem: RequestError | None = None
    written: int | None = None


@dataclass(frozen=True, slots=True)
class Pasted:
    """What a text has: specs with the name of their array, "" where it names none; a mesh; arrays;
    a receipt by line; and, of each spec, the memory kind that its sharding names.
    """

    specs: tuple[tuple[str, Spec], ...]
    mesh: Mesh | None = None
    arrays: tuple[PastedArray, ...] = ()
    receipt: tuple[PastedLine, ...] = ()
    memory: tuple[str | None, ...] = ()

    @property
    def unread(self) -> tuple[PastedLine, ...]:
        """Meshes and specs of the text that were not read."""
        return tuple(each for each in self.receipt if each.problem and each.kind != "array")

    def check(self) -> None:
        """Raises the refusal of the first mesh or spec that was not read."""
        for each in self.unread:
            raise each.problem or AssertionError


@dataclass(slots=True)
class _Read:
    receipt: list[PastedLine] = field(default_factory=list)
    specs: list[tuple[str, Spec]] = field(default_factory=list)
    meshes: list[Mesh] = field(default_factory=list)
    arrays: list[PastedArray] = field(default_factory=list)
    memory: list[str | None] = field(default_factory=list)

    def add(
        self,
        line: int,
        kind: Literal["mesh", "spec", "array"],
        words: str,
        problem: RequestError | None = None,
        written: int | None = None,
    ) -> None:
        self.receipt.append(PastedLine(line, kind, words, problem, written))


def read_pasted(text: str) -> Pasted:
    """Returns what a pasted text has.

    Raises:
        RequestError: The text has no spec, mesh or array.
    """
    check_length(text)
    read = _Read()
    _types(text, read)
    is_type = bool(read.specs)
    try:
        tree, code = syntax_of(text)
    except RequestError:
        if not is_type or any(name in text for name in ("Mesh", "make_mesh", "Partition")):
            raise
    else:
        _code(tree, code, read, text[: len(text) - len(text.lstrip())].count("\n"), is_type)
    if not read.receipt:
        raise no_spec(text)
    receipt = tuple(sorted(read.receipt, key=lambda each: each.line))
    mesh = read.meshes[0] if read.meshes else None
    return Pasted(tuple(read.specs), mesh, tuple(read.arrays), receipt, tuple(read.memory))


def read_spec(text: str) -> Spec:
    """Returns the one spec that a text is.

    Raises:
        RequestError: The text is no spec, or several, or one that is not written down.
    """
    pasted = read_pasted(text)
    for each in pasted.unread:
        if each.kind == "spec" and each.problem is not None:
            raise each.problem
    if len(pasted.specs) != 1:
        raise (
            no_spec(text)
            if not pasted.specs
            else refuse(shorten(text), f"has {len(pasted.specs)} specs", "write one")
        )
    return pasted.specs[0][1]


def spec_code(spec: Spec) -> str:
    """A spec as code, trailing replicated dims included.

    >>> spec_code((("x",), (), ("y", "z")))
    "P('x', None, ('y', 'z'))"
    """
    entries = [axes if len(axes) > 1 else next(iter(axes), None) for axes in spec]
    return f"P({', '.join(map(repr, entries))})"


def _types(text: str, read: _Read) -> None:
    for line, each in enumerate(text.splitlines(), 1):
        for array in printed_arrays(each):
            for axis in (axis for axes in array.spec or () for axis in axes):
                check_axis(axis)
            read.arrays.append(array)
            read.add(line, "array", f"array of {_array_words(array)}")
            if array.spec is not None:
                read.specs.append(("", array.spec))
                read.memory.append(None)
                read.add(line, "spec", spec_code(array.spec))


def _code(tree: ast.Module, code: str, read: _Read, skipped: int, is_type: bool) -> None:
    nodes = list(ast.walk(tree))
    names = names_of(nodes, code)
    for node, mesh in _meshes(nodes, names):
        line = node.lineno + skipped
        if isinstance(mesh, RequestError):
            read.add(line, "mesh", "", mesh)
        elif read.meshes and mesh != read.meshes[0]:
            second = refuse(
                f"mesh {_mesh_words(mesh)}",
                "is a second mesh of the text",
                "paste the lines of one",
            )
            read.add(line, "mesh", "", second)
        else:
            read.meshes.append(mesh)
            read.add(line, "mesh", f"mesh {_mesh_words(mesh)}")
    for each in [*specs_of(tree, names), *_bare(tree, names)]:
        line = each.place[0] + skipped
        if each.spec is None:
            read.add(line, "spec", "", each.problem)
        else:
            read.specs.append((each.name, each.spec))
            read.memory.append(each.memory)
            of = f" of {each.name}" * bool(each.name) + f" in {each.memory}" * bool(each.memory)
            read.add(line, "spec", spec_code(each.spec) + of, written=each.node.lineno + skipped)
    made = list(made_arrays(nodes, names))
    read.arrays[:] = [array for _, array in made if array is not None] or read.arrays
    for line, array in made:
        if array is not None:
            read.add(line + skipped, "array", f"array of {_array_words(array)}")
        elif any(each.kind != "array" for each in read.receipt) or is_type:
            no = refuse("an array", "has a shape that is not in the text", "write its sizes")
            read.add(line + skipped, "array", "", no)


def _meshes(
    nodes: Sequence[ast.AST], names: Names
) -> Iterator[tuple[ast.expr, Mesh | RequestError]]:
    for node in nodes:
        if isinstance(node, ast.Call) and names.called(node) in MESHES:
            try:
                yield node, read_mesh(node, names)
            except RequestError as error:
                yield node, error
        elif isinstance(node, (ast.Assign, ast.withitem)):
            value = node.value if isinstance(node, ast.Assign) else node.context_expr
            if _is_other_mesh(node, value, names):
                fix = "write make_mesh((2, 4), ('x', 'y')) or Mesh(devices.reshape(2, 4), ...)"
                yield value, refuse(f"mesh {names.written(value)}", "is not in the text", fix)


def _is_other_mesh(node: ast.Assign | ast.withitem, value: ast.expr, names: Names) -> bool:
    """Whether a name of a mesh is assigned what some other function returns."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.optional_vars]
    is_named = any(
        isinstance(each, ast.Name) and (each.id == "mesh" or each.id.endswith("_mesh"))
        for each in targets
    )
    if not is_named or makes_devices(value, names):
        return False
    value = names.value(value)
    return not (isinstance(value, ast.Call) and names.called(value) in MESHES)


def _bare(tree: ast.Module, names: Names) -> Iterator[SpecAt]:
    for statement in tree.body:
        if isinstance(statement, ast.Expr) and _is_axes(statement.value):
            node = statement.value
            spec = axes_of_tuple(node.elts, names)  # pyright: ignore[reportAttributeAccessIssue]
            yield SpecAt((node.lineno, node.col_offset), "", node, spec)


def _mesh_words(mesh: Mesh) -> str:
    return ", ".join(f"{name}={size}" for name, size in mesh)


def _array_words(array: PastedArray) -> str:
    return f"{array.dtype or ''}[{','.join(map(str, array.shape))}]"


def _is_axes(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple) and all(
        isinstance(each, (ast.Constant, ast.Tuple))
        and (
            not isinstance(each, ast.Constant) or each.value is None or isinstance(each.value, str)
        )
        for each in node.elts
    )

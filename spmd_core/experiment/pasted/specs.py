"""Specs of pasted code, with the name of the array that each is for."""

import ast
from dataclasses import dataclass, field, replace
from typing import get_args

from spmd_core.base import RequestError, refuse
from spmd_core.experiment.pasted.names import Names
from spmd_core.experiment.pasted.pasted_arrays import MESHES
from spmd_core.experiment.rules import check_axis
from spmd_core.fields import Axes, MemoryKind, Spec

READ = "P('x', None), PartitionSpec(('x', 'y')), NamedSharding(mesh, P('x')) or a line with one"
SPECS = ("P", "PartitionSpec")
MAX_VISITS = 20_000  # of nodes: tuples of tuples of names grow by powers
_PLACING = ("device_put", "with_sharding_constraint", "reshard")
# keywords whose value is a sharding, or several; a name of an array is none of them
_OF_SPECS = ("spec", "out_sharding", "partition_spec", "sharding", "shardings", "device")
_EACH = ("in_shardings", "out_shardings", "in_specs", "out_specs")


@dataclass(frozen=True, slots=True)
class SpecAt:
    """A spec where it is used: its place, its array's name or "", its node, the spec or what is
    not readable of it, and the memory kind that its sharding names, if any.
    """

    place: tuple[int, int]
    name: str
    node: ast.expr
    spec: Spec | None
    problem: RequestError | None = None
    memory: str | None = None


@dataclass(frozen=True, slots=True)
class _Visit:
    node: ast.AST
    placed: str = ""  # the array that a call around it places
    named: str = ""
    assigned: str = ""
    place: tuple[int, int] | None = None  # of the name that led to it
    is_spec: bool = False  # whether only a sharding has a sense here
    memory: str | None = None  # memory kind of the sharding around it


@dataclass(slots=True)
class _SpecReader:
    names: Names
    read: list[SpecAt] = field(default_factory=list)
    used: set[int] = field(default_factory=set)  # nodes of specs that were reached by a name

    def run(self, tree: ast.AST) -> list[SpecAt]:
        waiting, visits = [_Visit(tree)], 0
        while waiting:
            visits += 1
            if visits > MAX_VISITS:
                raise refuse("code", "uses its names too often to be read", "paste fewer lines")
            waiting += self._visit(waiting.pop())
        once = [each for each in self.read if each.place == _place(each.node)]
        direct = {id(each) for each in once if id(each.node) in self.used}
        return sorted(
            (each for each in self.read if id(each) not in direct),
            key=lambda each: (*each.place, *_place(each.node)),
        )

    def _visit(self, visit: _Visit) -> list[_Visit]:
        node = visit.node
        if isinstance(node, ast.Call) and self.names.called(node) in SPECS:
            self._add(visit, node)
            return []
        if visit.is_spec and isinstance(node, ast.expr):
            return self._sharding(visit, node)
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            return self._assigned(visit, node)
        if isinstance(node, ast.Call):
            return self._call(visit, node)
        return [
            _Visit(each, visit.placed, "", visit.assigned) for each in ast.iter_child_nodes(node)
        ]

    def _add(self, visit: _Visit, node: ast.expr, problem: RequestError | None = None) -> None:
        spec = None
        if problem is None:
            try:
                spec = _spec(node, self.names)  # pyright: ignore[reportArgumentType]
            except RequestError as error:
                problem = error
        if visit.place is not None:
            self.used.add(id(node))
        name = visit.placed or visit.named or visit.assigned
        place = visit.place or _place(node)
        self.read.append(SpecAt(place, name, node, spec, problem, visit.memory))

    def _sharding(self, visit: _Visit, node: ast.expr) -> list[_Visit]:
        """An expression where a sharding is due: a name is followed, a call is one or unread."""
        value = self.names.value(node)
        place = visit.place or (_place(node) if value is not node else None)
        here = replace(visit, node=value, place=place, is_spec=True)
        if isinstance(value, (ast.Tuple, ast.List, ast.Dict)):
            inner = value.values if isinstance(value, ast.Dict) else value.elts
            return [_Visit(each, visit.placed, "", visit.assigned, place, True) for each in inner]
        if value is not node:
            return [here]
        if isinstance(value, ast.Call) and self.names.called(value) == "NamedSharding":
            given = {word.arg: word.value for word in value.keywords}
            spec = value.args[1] if len(value.args) > 1 else given.get("spec")
            mesh = value.args[0] if value.args else given.get("mesh")
            inner = [] if not isinstance(mesh, ast.Call) else [_Visit(mesh)]
            if spec is not None:
                return [*inner, self._in_memory(visit, spec, given.get("memory_kind"))]
        if (
            isinstance(value, ast.Call)
            and isinstance(value.func, ast.Attribute)
            and value.func.attr == "with_memory_kind"
        ):
            kind = [*value.args, *(word.value for word in value.keywords)]
            return [self._in_memory(visit, value.func.value, *kind[:1])]
        problem = self.names.unread(value, "is no spec, and nothing is evaluated", f"write {READ}")
        self._add(visit, value, problem)
        return []

    def _in_memory(self, visit: _Visit, node: ast.expr, kind: ast.expr | None = None) -> _Visit:
        """A sharding of a memory kind; that of the sharding around it where it names none."""
        of = replace(visit, node=node, is_spec=True)
        if kind is None or (isinstance(kind, ast.Constant) and kind.value is None):
            return of
        (memory,) = self.names.constants([kind], str) or (None,)
        if memory in get_args(MemoryKind):
            return replace(of, memory=of.memory or memory)
        fix = f"write {' or '.join(map(repr, get_args(MemoryKind)))}"
        no = refuse(f"memory kind {self.names.written(kind)}", "is none of the lab's", fix)
        self._add(visit, kind, no)
        return of

    def _assigned(self, visit: _Visit, node: ast.Assign | ast.AnnAssign) -> list[_Visit]:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        target = targets[0] if len(targets) == 1 else None
        if (
            isinstance(target, ast.Tuple)
            and isinstance(node.value, ast.Tuple)
            and len(target.elts) == len(node.value.elts)
        ):
            pairs = zip(target.elts, node.value.elts, strict=True)
            return [_Visit(value, assigned=getattr(one, "id", "")) for one, value in pairs]
        value = [] if node.value is None else [node.value]
        return [_Visit(each, assigned=getattr(target, "id", "")) for each in value]

    def _call(self, visit: _Visit, node: ast.Call) -> list[_Visit]:
        """The arguments of a call: those that are shardings by the name of the call or keyword."""
        called = self.names.called(node)
        of = node.func.value if isinstance(node.func, ast.Attribute) else node
        is_moved = called == "with_memory_kind" and isinstance(self.names.value(of), ast.Call)
        if called == "NamedSharding" or is_moved:
            return [_Visit(node, visit.placed, visit.named, visit.assigned, None, True)]
        placing = called in _PLACING
        first = node.args[0] if placing and node.args else None
        placed = visit.placed or (first.id if isinstance(first, ast.Name) else "")
        after = [_Visit(node.func, placed, "", visit.assigned)]
        for at, each in enumerate(node.args):
            after.append(_Visit(each, placed, "", visit.assigned, None, placing and at == 1))
        for word in node.keywords:
            is_none = isinstance(word.value, ast.Constant) and word.value.value is None
            due = word.arg in (*_OF_SPECS, *_EACH) and not is_none and called not in MESHES
            named = "" if word.arg in _OF_SPECS else word.arg or ""
            after.append(_Visit(word.value, placed, named, visit.assigned, None, due))
        return after


def specs_of(tree: ast.AST, names: Names) -> list[SpecAt]:
    """Returns the specs of a code in the order in which they are used."""
    return _SpecReader(names).run(tree)


def axes_of_tuple(nodes: list[ast.expr], names: Names) -> Spec:
    """Returns the spec of entries: None, an axis name, or a tuple of names."""
    return tuple(_axes(each, names) for each in nodes)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _spec(node: ast.Call, names: Names) -> Spec:
    entries = None if node.keywords else names.expanded(node.args)
    if entries is None:
        raise refuse(names.written(node), "has more than axis names", f"write {READ}")
    return axes_of_tuple(entries, names)


def _axes(node: ast.expr, names: Names) -> Axes:
    """Mesh axes of one entry: None, a name, or a tuple of names."""
    value = names.value(node)
    if isinstance(value, ast.Constant) and value.value is None:
        return ()
    inner = names.elements(value)
    axes = names.constants([value] if inner is None else inner, str)
    if axes is not None:
        for name in axes:
            check_axis(name)
        return tuple(axes)
    raise refuse(
        f"entry {names.written(node)} of a PartitionSpec",
        "is no axis name, and nothing is evaluated",
        "write None, a name such as 'x', or a tuple of names",
    )

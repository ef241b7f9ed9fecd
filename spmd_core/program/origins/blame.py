"""The origins of a program's axes: of every value, and of those that a collective moves or adds."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product

from spmd_core.base import by_key, firsts_by_key
from spmd_core.facts import AxisOrigin, OriginPlace, OriginStep, Spec
from spmd_core.program.hlo.lines import File, is_of, line_of, place
from spmd_core.program.hlo.module import Computation, Instruction, Module
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.ir.shardings import last_part
from spmd_core.program.origins.dump import meshes_of, read_dump
from spmd_core.program.origins.graph import CONSTRAINTS, Op, Value
from spmd_core.program.origins.join import Joined, join
from spmd_core.program.origins.reach import Area, ListedSteps, SameDims
from spmd_core.program.origins.trace import Hop, Path, Tracer, with_written

MOST_OPS = 20_000  # whose values are counted
MOST_ORIGINS = 4  # of one axis: operations on one line may have different ones
_KEY = re.compile(r"""\[['"]?([^'"\]]*)['"]?\]|\.(\w+)""")  # of a path: `params['w'][0].bias`


@dataclass(frozen=True)
class ProgramNames:
    """How the author of a program names its ends.

    Attributes:
      file: the source files; lines of others are not listed.
      arguments: the paths of the arguments; () for the names in the module.
      outputs: those of the outputs; () for their numbers.
      mapped: the axes over which a `shard_map` may communicate; None for all.
      lines: reads a source file by its name, to quote it; None for those that are here.
    """

    file: File = ""
    arguments: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    mapped: tuple[str, ...] | None = None
    lines: Callable[[str], Sequence[str]] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Record:
    """What a compile leaves of its propagation.

    Attributes:
      module: the program after propagation, with source lines.
      before: Shardy's module before propagation, as text.
      after: that module afterwards, with the edges of its propagation.
    """

    module: Module
    before: str
    after: str
    names: ProgramNames = ProgramNames()


@dataclass
class Origins:
    """Looks up the origin of any axis of any instruction.

    Attributes:
      record: what a compile left of its propagation.
      mesh: names and sizes of the mesh axes, as the experiment has them.
    """

    record: Record
    mesh: Mesh
    _known: dict[tuple[int, str], AxisOrigin | None] = field(default_factory=dict)
    _places: dict[tuple[Area, str], dict[OriginPlace, Path]] = field(default_factory=dict)
    _listed: dict[Path, tuple[ListedSteps, ListedSteps]] = field(default_factory=dict)
    _of_op: dict[int, list[str]] = field(default_factory=dict)

    @cached_property
    def _tracer(self) -> Tracer:
        return Tracer(with_written(read_dump(self.record.after), read_dump(self.record.before)))

    @cached_property
    def _values(self) -> Counter[tuple[str, int, int, str]] | None:
        """How many values have an axis by each origin; None where too many were to be searched for."""
        ops = self._tracer.graph.ops[:MOST_OPS]
        values = [*self._tracer.graph.arguments, *(value for op in ops for value in op.results)]
        counted = Counter(
            (path.kind, path.index, id(path.op), self._names.get(axis, axis))
            for value in values
            for axis in value.axes
            if (path := self._tracer.path(value, axis)) is not None
        )
        is_partial, self._tracer.searches = self._tracer.is_exhausted, 0
        return None if is_partial else counted  # pyrefly: ignore[bad-return]

    @cached_property
    def _reach(self) -> SameDims:
        return SameDims(self._tracer.graph, self._tracer)

    @cached_property
    def _joined(self) -> Joined:
        return join(self._tracer.graph, self.record.module)

    @cached_property
    def own_mesh(self) -> Mesh:
        """The mesh that the module has: of several over the same devices the compiler keeps one."""
        own, meshes = dict(self.mesh), meshes_of(self.record.after)
        if not meshes or any(set(own) & set(dict(mesh)) for mesh in meshes):
            return self.mesh
        return next(mesh for mesh in meshes if _split(self.mesh, mesh) is not None)

    @cached_property
    def _parts(self) -> Mapping[str, Sequence[str]]:
        return _split(self.mesh, self.own_mesh) or {}

    @cached_property
    def _names(self) -> Mapping[str, str]:
        return {theirs: ours for ours, parts in self._parts.items() for theirs in parts}

    def renamed(self, spec: Spec) -> Spec:
        """A spec of the module over the mesh of the experiment."""
        return tuple(
            tuple(dict.fromkeys(self._names.get(axis, axis) for axis in axes)) for axes in spec
        )

    def of(self, computation: Computation, each: Instruction, axis: str) -> AxisOrigin | None:
        """Returns what put an axis on an instruction's value; None if that is unknown."""
        value = self._value(computation, each)
        if value is None:
            return None
        key = id(self._tracer.same(value)), axis
        if key not in self._known:
            path = self._path(value, axis)
            self._known[key] = self._origin(path, axis) if path else None
        return self._known[key]

    def _path(self, value: Value, axis: str) -> Path | None:
        paths = (self._tracer.path(value, part) for part in self._parts[axis])
        return next(filter(None, paths), None)

    def is_passed(
        self, computation: Computation, one: Instruction, other: Instruction, axis: str
    ) -> bool:
        """Returns True if one value has an axis by another."""
        to, at = (self._value(computation, each) for each in (one, other))
        if to is None or at is None or (start := self._path(to, axis)) is None:
            return False
        path = self._path(at, axis)
        while path is not None and path is not start:
            path = path.before
        return path is start

    def also(
        self, ends: Iterable[tuple[Computation, Instruction]], axis: str, most: int
    ) -> list[AxisOrigin]:
        """Returns what would put an axis on the values of instructions if their origins did not, at
        most so many; what would put it on another dim comes last.
        """
        known: dict[OriginPlace, AxisOrigin] = {}
        for (computation, each), own in product(ends, self._parts[axis]):
            value, origin = self._value(computation, each), self.of(computation, each, axis)
            if value is None:
                continue
            for area, is_here in self._reach.areas(value, own).items():
                for at, path in self._places_of(area, own).items():
                    is_new = at not in known and (origin is None or at != origin.place)
                    if len(known) < most and is_new:
                        also = {"also": True, "elsewhere": not is_here}
                        known[at] = self._origin(path, axis).model_copy(update=also)
        return list(known.values())

    def of_line(self, axes: Sequence[str], source: str) -> tuple[AxisOrigin, ...]:
        """Returns what names axes for the operations of a line and for what they read; () where nothing
        does. What has put one of them there comes first.
        """
        ends = [
            (computation, computation.by_name[name])
            for computation in self.record.module.computations
            for each in computation.instructions
            if line_of(each, self.record.names.file) == source
            for name in (*each.operands, each.name)
        ]
        known = firsts_by_key(
            (origin.place, origin)
            for axis in axes
            for origin in (
                *filter(None, (self.of(*end, axis) for end in ends)),
                *self.also(ends, axis, MOST_ORIGINS),
            )
        )
        return tuple(known.values())[:MOST_ORIGINS]

    def _places_of(self, area: Area, own: str) -> dict[OriginPlace, Path]:
        key = area, own
        if key not in self._places:
            paths = (self._tracer.seed(each, own) for each in area.seeds[own])
            self._places[key] = {self._place(path): path for path in paths if path is not None}
        return self._places[key]

    def _place(self, path: Path) -> OriginPlace:
        return path.kind, self._name(path), self._line(path.op) or None, self._called(path.op)

    def _value(self, computation: Computation, each: Instruction) -> Value | None:
        return self._joined.values.get((computation.name, each.name))

    def _origin(self, path: Path, axis: str) -> AxisOrigin:
        listed = self._steps(path)
        _, name, source, called = self._place(path)
        counted, spec = self._values, self.renamed(path.spec)
        axes = [axis for dim in spec for axis in dim]
        return AxisOrigin(
            axis=axis,
            kind=path.kind,
            name=name,
            source=source,
            called=called,
            spec=spec if len({*axes}) == len(axes) else path.spec,  # parts of one axis on two dims
            steps=listed.steps,
            values=None if counted is None else counted[path.kind, path.index, id(path.op), axis],
            left_out=listed.count - len(listed.steps),
            inferred=not self._tracer.is_recorded,
        )

    def _name(self, path: Path) -> str:
        if path.kind not in ("argument", "output"):
            each = self._joined.instructions.get(id(path.op))
            # the shardings that a function was exported with
            is_call = each is not None and last_part(each.op_name) == "call_exported"
            return "exported.call" if is_call else ""
        names = self.record.names
        given = names.arguments if path.kind == "argument" else names.outputs
        if path.index < len(given):
            return given[path.index]
        parameter = self._joined.parameters.get(path.index)
        if path.kind == "argument" and parameter is not None and parameter.op_name:
            return _KEY.sub(r"/\1\2", parameter.op_name)
        return f"{path.kind} {path.index}"

    def _line(self, op: Op | None) -> str:
        return next(iter(self._lines(op)), "")

    def _lines(self, op: Op | None) -> list[str]:
        """The lines of the author's files that led to an op, innermost first."""
        if id(op) not in self._of_op:
            each = self._joined.instructions.get(id(op))
            frames = each.frames if each is not None else ()
            own = (place(at) for at in frames if is_of(at.file, self.record.names.file))
            self._of_op[id(op)] = list(dict.fromkeys(own))
        return self._of_op[id(op)]

    @cached_property
    def _parting(self) -> Mapping[str, int]:
        """How many calls are alike before those that lead to a line which constrains differ."""
        constraints = (op for op in self._tracer.graph.ops if op.kind in CONSTRAINTS)
        lines = (self._lines(op) for op in constraints)
        calls = by_key((each[0], tuple(each[1:])) for each in lines if each)
        parting = dict[str, int]()
        for line, ways in calls.items():
            depths = range(max(map(len, ways)))
            at = next((at for at in depths if len({way[: at + 1] for way in ways}) > 1), None)
            parting |= {} if at is None else {line: at}
        return parting

    def _called(self, op: Op | None) -> str | None:
        """The innermost line that calls the function which constrains, where other lines do, too."""
        line, *calls = self._lines(op) or [""]
        return next(iter(calls[self._parting.get(line, len(calls)) :]), None)

    def _steps(self, path: Path) -> ListedSteps:
        """A step for each line in turn. Operations without a line are listed only if none has one:
        JAX or the compiler added them.
        """
        waiting, at = list[Path](), path
        while at not in self._listed and at.before is not None:
            waiting.append(at)
            at = at.before
        listed = self._listed.setdefault(at, (ListedSteps(), ListedSteps()))
        for each in reversed(waiting):
            for step in filter(None, map(self._step, each.last)):
                with_line, without = listed
                listed = (
                    (with_line.then(step), without)
                    if step.source
                    else (with_line, without.then(step))
                )
            self._listed[each] = listed
        return listed[0] if listed[0].count else listed[1]

    def _step(self, hop: Hop) -> OriginStep | None:
        each = self._joined.instructions.get(id(hop.op))
        if each is None:
            return None
        name = last_part(each.op_name) or each.opcode
        return OriginStep(operation=name, source=self._line(hop.op), backward=hop.backward)


def _split(ours: Mesh, theirs: Mesh) -> dict[str, list[str]] | None:
    """The axes of another mesh that each axis of a mesh is made of, in order; None if one is not."""
    rest, split = [each for each in theirs if each[1] > 1], dict[str, list[str]]()
    for name, size in ours:
        split[name] = list[str]()
        while rest and size > 1 and size % rest[0][1] == 0:
            split[name].append(rest[0][0])
            size //= rest.pop(0)[1]
        if size > 1:
            return None
    return split

"""The origins of a program's axes: of every value, and of those that a collective moves or adds."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from spmd_core.program.hlo.lines import File, is_of, place
from spmd_core.program.hlo.module import Computation, Instruction, Module
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.ir.shardings import last_part
from spmd_core.program.origins.dump import meshes_of, read_dump
from spmd_core.program.origins.graph import CONSTRAINTS, Op, Value
from spmd_core.program.origins.join import Joined, join
from spmd_core.program.origins.reach import SameDims
from spmd_core.program.origins.trace import Hop, Path, Tracer, with_written
from spmd_core.results import AxisOrigin, OriginStep, Spec

MOST_OPS = 20_000  # whose values are counted
MOST_STEPS = 8  # listed of one path: half of them at each end
_KEY = re.compile(r"""\[['"]?([^'"\]]*)['"]?\]|\.(\w+)""")  # of a path: `params['w'][0].bias`
_PRODUCTS = ("dot_general", "conv_general_dilated")


@dataclass(frozen=True)
class ProgramNames:
    """How the author of a program names its ends.

    Attributes:
      file: the source files; lines of others are not listed.
      arguments: the paths of the arguments; () for the names in the module.
      outputs: those of the outputs; () for their numbers.
    """

    file: File = ""
    arguments: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


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

    @cached_property
    def _tracer(self) -> Tracer:
        return Tracer(with_written(read_dump(self.record.after), read_dump(self.record.before)))

    @cached_property
    def _values(self) -> Counter[tuple[str, int, int, str]]:
        """How many values have an axis by each origin."""
        ops = self._tracer.graph.ops[:MOST_OPS]
        values = [*self._tracer.graph.arguments, *(value for op in ops for value in op.results)]
        named = {
            theirs: ours for (ours, _), (theirs, _) in zip(self.mesh, self.own_mesh, strict=True)
        }
        return Counter(
            (path.kind, path.index, id(path.op), named.get(axis, axis))
            for value in values
            for axis in value.axes
            if (path := self._tracer.path(value, axis)) is not None
        )

    @cached_property
    def _reach(self) -> SameDims:
        return SameDims(self._tracer.graph, self._tracer)

    @cached_property
    def _joined(self) -> Joined:
        return join(self._tracer.graph, self.record.module)

    @cached_property
    def own_mesh(self) -> Mesh:
        """The mesh that the module has: of several of the same sizes the compiler keeps one."""
        sizes, own = [size for _, size in self.mesh], dict(self.mesh)
        for mesh in meshes_of(self.record.after):
            if [size for _, size in mesh] == sizes and not set(own) & {name for name, _ in mesh}:
                return mesh
        return self.mesh

    def renamed(self, spec: Spec) -> Spec:
        """A spec of the module over the mesh of the experiment."""
        names = {
            theirs: ours for (ours, _), (theirs, _) in zip(self.mesh, self.own_mesh, strict=True)
        }
        return tuple(tuple(names.get(axis, axis) for axis in axes) for axes in spec)

    def of(self, computation: Computation, each: Instruction, axis: str) -> AxisOrigin | None:
        """Returns what put an axis on an instruction's value; None if that is unknown."""
        value = self._value(computation, each)
        if value is None:
            return None
        key = id(self._tracer.same(value)), axis
        if key not in self._known:
            path = self._tracer.path(value, self._own(axis))
            self._known[key] = self._origin(path, axis) if path else None
        return self._known[key]

    def also(self, computation: Computation, each: Instruction, axis: str) -> list[AxisOrigin]:
        """Returns what would put an axis on an instruction's value if its origin did not."""
        value, origin = self._value(computation, each), self.of(computation, each, axis)
        if value is None or origin is None:
            return []
        own = self._own(axis)
        paths = (self._tracer.seed(seed, own) for seed in self._reach.seeds(value, own))
        origins = [self._origin(path, axis) for path in paths if path is not None]
        return [other for other in origins if self._place(other) != self._place(origin)]

    @staticmethod
    def _place(origin: AxisOrigin) -> tuple[str, str, str | None, str | None]:
        return origin.kind, origin.name, origin.source, origin.called

    def _value(self, computation: Computation, each: Instruction) -> Value | None:
        return self._joined.values.get((computation.name, each.name))

    def _own(self, axis: str) -> str:
        """The module's name of an axis."""
        return self.own_mesh[[name for name, _ in self.mesh].index(axis)][0]

    def _origin(self, path: Path, axis: str) -> AxisOrigin:
        steps = self._steps(path.hops)
        half = MOST_STEPS // 2
        listed = steps if len(steps) <= MOST_STEPS else [*steps[:half], *steps[-half:]]
        return AxisOrigin(
            axis=axis,
            kind=path.kind,
            name=self._name(path),
            source=self._line(path.op) or None,
            called=self._called(path.op),
            spec=self.renamed(path.spec),
            steps=tuple(listed),
            values=self._values[path.kind, path.index, id(path.op), axis],
            left_out=len(steps) - len(listed),
        )

    def _name(self, path: Path) -> str:
        if path.kind not in ("argument", "output"):
            return ""
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
        each = self._joined.instructions.get(id(op))
        frames = each.frames if each is not None else ()
        return list(
            dict.fromkeys(place(at) for at in frames if is_of(at.file, self.record.names.file))
        )

    @cached_property
    def _callers(self) -> Mapping[str, set[str]]:
        """The lines that call each line which constrains."""
        callers: dict[str, set[str]] = {}
        for op in self._tracer.graph.ops:
            if op.kind in CONSTRAINTS and len(lines := self._lines(op)) > 1:
                callers.setdefault(lines[0], set()).add(lines[1])
        return callers

    def _called(self, op: Op | None) -> str | None:
        """The line that calls the function which constrains, where more than one does."""
        lines = self._lines(op)
        return lines[1] if lines and len(self._callers.get(lines[0], ())) > 1 else None

    def _steps(self, hops: Sequence[Hop]) -> list[OriginStep]:
        """A step for each line in turn, named by its product if it has one. Operations without a
        line are listed only if none has one: JAX or the compiler added them.
        """
        steps = [step for hop in hops if (step := self._step(hop)) is not None]
        if any(step.source for step in steps):
            steps = [step for step in steps if step.source]
        merged = list[OriginStep]()
        for step in steps:
            if merged and step.source and merged[-1].source == step.source:
                before = merged.pop()
                step = before if _is_product(before) else step
            merged.append(step)
        return merged

    def _step(self, hop: Hop) -> OriginStep | None:
        each = self._joined.instructions.get(id(hop.op))
        if each is None:
            return None
        name = last_part(each.op_name) or each.opcode
        return OriginStep(operation=name, source=self._line(hop.op), backward=hop.backward)


def _is_product(step: OriginStep) -> bool:
    return step.operation in _PRODUCTS

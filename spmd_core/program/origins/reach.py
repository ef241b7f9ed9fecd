"""The other places that would put an axis on a dim of a value, if its origin did not; and the steps
of a path that are listed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from spmd_core.base import by_key
from spmd_core.facts import OriginStep
from spmd_core.program.origins.graph import MANUAL, Graph, Op, Value
from spmd_core.program.origins.trace import Tracer

Node = tuple[int, int]  # the id of a value, and a dim


@dataclass(slots=True, eq=False)
class Area:
    """Dims that are one, with the closed ones at its ends."""

    nodes: list[Node] = field(default_factory=list)
    seeds: dict[str, list[Value]] = field(default_factory=dict)  # of each axis


class SameDims:
    """Which dims of which values are one, by the rules of the ops between them."""

    def __init__(self, graph: Graph, tracer: Tracer) -> None:
        self.graph, self.tracer = graph, tracer
        self._values: dict[int, Value] = {}
        self._linked: dict[Node, list[Node]] = {}
        self._areas: dict[Node, Area] = {}  # of dims that are not closed
        for op in graph.ops:
            self._read(op)
        for value, output in zip(graph.returned, graph.outputs, strict=False):
            self._link([self.tracer.same(value), output])

    def areas(self, value: Value, axis: str) -> Mapping[Area, bool]:
        """Returns the dims that are one with those of a value, each area with its seeds of an axis, and
        whether it is of the dim that the axis shards; these come first.
        """
        value = self.tracer.same(value)
        self._values.setdefault(id(value), value)
        areas = dict[Area, bool]()
        own = value.axes.get(axis)
        for dim in sorted(range(len(value.shape)), key=lambda dim: dim != own):
            start = id(value), dim
            near = self._linked.get(start, ()) if self._is_closed(start) else ()
            for area in map(self._area, (start, *near)):
                areas.setdefault(area, dim == own)
        for area in areas:
            if axis not in area.seeds:
                dims = ((self._values[each], dim) for each, dim in area.nodes)
                area.seeds[axis] = [each for each, dim in dims if each.written.get(axis) == dim]
        return areas

    def _area(self, start: Node) -> Area:
        if start in self._areas:
            return self._areas[start]
        area, waiting, seen = Area(), [start], {start}
        while waiting:
            at = waiting.pop()
            area.nodes.append(at)
            if at == start or not self._is_closed(at):
                self._areas[at] = area
            if self._is_closed(at):
                continue
            near = [each for each in self._linked.get(at, ()) if each not in seen]
            seen.update(near)
            waiting += dict.fromkeys(near)
        return area

    def _is_closed(self, node: Node) -> bool:
        return node[1] in self._values[node[0]].closed

    def _read(self, op: Op) -> None:
        for factor in _factors(op):
            self._join([(self.tracer.same(value), dim) for value, dim in factor])
        for result in op.results if op.regions or op.flows else ():
            self._link([result, *self.tracer.sources(op, result.index)])
        if op.kind == MANUAL and op.regions:
            for argument in op.regions[0].arguments:
                self._link([op.operands[argument.index], argument])

    def _link(self, values: list[Value]) -> None:
        values = [self.tracer.same(value) for value in values]
        for dim in range(max(len(value.shape) for value in values)):
            self._join([(value, dim) for value in values])

    def _join(self, ends: list[tuple[Value, int]]) -> None:
        """Dims that are one: each is linked with an open one, as what is closed leads no further; where
        none is open, with each other.
        """
        self._values |= {id(value): value for value, _ in ends}
        nodes = [(id(value), dim) for value, dim in ends]
        for at in [each for each in nodes if not self._is_closed(each)][:1] or nodes:
            for node in nodes:
                if node != at:
                    self._linked.setdefault(at, []).append(node)
                    self._linked.setdefault(node, []).append(at)


def _factors(op: Op) -> Iterator[list[tuple[Value, int]]]:
    """The dims of operands and results that have a factor of an op's rule in common."""
    known = by_key(
        (factor, (value, dim))
        for value, dims in zip([*op.operands, *op.results], op.rule, strict=False)
        for dim, factors in enumerate(dims)
        for factor in factors
    )
    for factor, ends in known.items():
        if factor not in op.blocked and len(ends) > 1:
            yield ends


MOST_STEPS = 8  # listed of one path: half of them at each end
_HALF = MOST_STEPS // 2
_PRODUCTS = ("dot_general", "conv_general_dilated")


@dataclass(frozen=True, slots=True)
class ListedSteps:
    """Steps, of which the first and the last ones are kept; consecutive ones of one line are one, named
    by its product if it has one.
    """

    first: tuple[OriginStep, ...] = ()
    last: tuple[OriginStep, ...] = ()
    count: int = 0

    @property
    def steps(self) -> tuple[OriginStep, ...]:
        """The steps that are listed."""
        return self.first if self.count <= MOST_STEPS else self.first[:_HALF] + self.last

    def then(self, step: OriginStep) -> "ListedSteps":
        """These steps and one more."""
        if self.last and step.source and self.last[-1].source == step.source:
            if self.last[-1].operation in _PRODUCTS:
                return self
            first = self.first
            if self.count <= MOST_STEPS:
                first = (*first[:-1], step)
            return replace(self, first=first, last=(*self.last[:-1], step))
        first = (*self.first, step) if self.count < MOST_STEPS else self.first
        return ListedSteps(first, (*self.last, step)[-_HALF:], self.count + 1)

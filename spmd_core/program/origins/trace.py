"""Follows a mesh axis of a value back to what put it there, by the edges of Shardy's propagation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from spmd_core.base import by_key
from spmd_core.program.origins.graph import CONSTRAINTS, MANUAL, Edge, End, Graph, Op, Value

Kind = Literal["argument", "constraint", "output", "shard_map"]
_FAR = 200  # values that are searched for one whose edge was not recorded
MOST_SEARCHES = 5_000  # of a program: about 1 s


@dataclass(frozen=True, slots=True)
class Hop:
    """A step from a value to the next one, through an op; `backward`: from a result to an operand."""

    op: Op
    backward: bool
    value: Value  # that the step leads to


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """What put an axis on a value, and the steps from there to it.

    Attributes:
      index: the number of the argument or output.
      op: the constraint or the shard_map.
      spec: the axes of each dim, as written there.
      before: the path to the value that it came from; None where it was put.
      last: the steps from that value.
    """

    kind: Kind
    index: int
    op: Op | None
    spec: tuple[tuple[str, ...], ...]
    before: "Path | None" = None
    last: tuple[Hop, ...] = ()

    @property
    def hops(self) -> tuple[Hop, ...]:
        """The steps from where the axis was put."""
        parts, at = [self.last], self.before
        while at is not None:
            parts.append(at.last)
            at = at.before
        return tuple(hop for part in reversed(parts) for hop in part)


@dataclass(frozen=True, slots=True)
class _Arrival:
    step: int
    source: Value
    target: Value
    op: Op
    backward: bool


def with_written(after: Graph, before: Graph) -> Graph:
    """Gives the values of a module the axes that the program writes, read before propagation."""
    ends = zip(
        [*after.arguments, *after.outputs], [*before.arguments, *before.outputs], strict=True
    )
    for value, given in ends:
        value.written, value.closed = given.axes, given.closed
    own, given = ([op for op in each.ops if op.specs] for each in (after, before))
    if [op.kind in CONSTRAINTS for op in own] != [op.kind in CONSTRAINTS for op in given]:
        given = own  # a pass removed one: a constraint keeps what propagation added to it
    for op, first in zip(own, given, strict=True):
        for value, spec in zip(op.results, first.specs, strict=False):
            value.written = spec
        for value, closed in zip(op.results, first.closed, strict=False):
            value.closed = closed
        for region in op.regions if op.kind == MANUAL else ():
            for value, spec in zip(region.arguments, first.arguments_specs, strict=False):
                value.written = value.axes = spec
                value.closed = frozenset(range(len(value.shape) or 9))
    return after


class Tracer:
    """Traces the axes of the values of one module.

    Attributes:
      is_recorded: False if the compiler kept no edges: then the nearest place that writes an axis on the
        same dim, by the sharding rules of the ops, has put it on a value.
      searches: how often a step without an edge was searched for; no more than `MOST_SEARCHES`.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph, self.searches = graph, 0
        made = (value for op in graph.ops for value in op.results)
        self.is_recorded = any(each.labels for each in (*graph.arguments, *made))
        self._recorded: dict[tuple[int, str], Path] = {}  # paths by edges alone
        self._arguments = {id(each) for each in graph.arguments}
        self._outputs = {id(each): at for at, each in reversed([*enumerate(graph.outputs)])}
        self._same: dict[int, Value] = {}  # an argument of a loop's region -> the loop's result
        self._arrivals: dict[tuple[int, str], _Arrival] = {}
        self._returned = by_key((id(value), at) for at, value in enumerate(graph.returned))
        for op in graph.ops:
            self._read(op)

    def same(self, value: Value) -> Value:
        """The value itself; of what a loop carries, the loop's result."""
        return self._same.get(id(value), value)

    def path(self, value: Value, axis: str) -> Path | None:
        """Returns how an axis came to a value; None if that was not recorded."""
        at, seen = self.same(value), set[int]()
        way, searched = list[tuple[Value, tuple[Hop, ...]]](), 0
        while (path := self._known(at, axis)) is None:
            seen.add(id(at))
            arrival = self._arrivals.get((id(at), axis))
            if arrival is not None and id(self.same(arrival.source)) not in seen:
                way.append((at, (Hop(arrival.op, arrival.backward, at),)))
                at = self.same(arrival.source)
                continue
            further = self._search(at, axis, seen)
            if not further:
                return None
            way.append((at, tuple(reversed(further[0]))))
            at, searched = further[1], len(way)
        for number, (each, hops) in reversed([*enumerate(way)]):
            path = Path(path.kind, path.index, path.op, path.spec, path, hops)
            # another way to a search of recorded steps may meet other values
            if number >= searched or not self.is_recorded:
                self._recorded[id(each), axis] = path
        return path

    @property
    def is_exhausted(self) -> bool:
        """Whether more steps were to be searched for than `MOST_SEARCHES`."""
        return self.searches > MOST_SEARCHES

    def _known(self, at: Value, axis: str) -> Path | None:
        key = id(at), axis
        if key not in self._recorded:
            if (seed := self._seed(at, axis)) is None:
                return None
            kind, index, op, written = seed
            self._recorded[key] = Path(kind, index, op, _spec(written))
        return self._recorded[key]

    def seed(self, at: Value, axis: str) -> Path | None:
        """Returns what writes an axis on a value, without steps; None if nothing does."""
        if (index := self._outputs.get(id(at))) is not None:
            return Path("output", index, None, _spec(at))
        if (seed := self._seed(at, axis)) is None:
            return None
        kind, index, op, written = seed
        return Path(kind, index, op, _spec(written))

    def _seed(self, at: Value, axis: str) -> tuple[Kind, int, Op | None, Value] | None:
        if axis in at.written:
            if at.op is None and id(at) in self._arguments:
                return "argument", at.index, None, at
            if at.op is None or at.op.kind == MANUAL:
                return "shard_map", at.index, at.op or self._entered.get(id(at)), at
            return "constraint", 0, at.op, at
        for index in self._returned.get(id(at), ()):
            output = self.graph.outputs[index]
            is_labelled = at.labels.get(axis, "").startswith("output")
            if axis in output.written and (is_labelled or (id(at), axis) not in self._arrivals):
                return "output", index, None, output
        return None

    # The edges of ops ---------------------------------------------------------------------------

    def _read(self, op: Op) -> None:
        if op.edges:
            self._add(op, op.edges, op.operands, op.results)
        if op.kind == "stablehlo.while":
            for region in op.regions:
                self._same |= {
                    id(argument): result
                    for argument, result in zip(region.arguments, op.results, strict=False)
                }
        for result, edges in _aligned(op.results, op.flows):
            self._add(op, edges, self.sources(op, result.index), [result])
        if op.kind == MANUAL and op.regions:
            for argument, edges in zip(op.regions[0].arguments, op.enters, strict=False):
                self._add(op, edges, [op.operands[argument.index]], [argument])

    def sources(self, op: Op, index: int) -> list[Value]:
        """The values that a result of an op with regions takes on."""
        yielded = [region.yields[index] for region in op.regions if index < len(region.yields)]
        if op.kind == "stablehlo.while":
            return [op.operands[index], *yielded[-1:]]
        return yielded or op.operands[index : index + 1]

    def _add(
        self, op: Op, edges: tuple[Edge, ...], operands: list[Value], results: list[Value]
    ) -> None:
        def end(at: End) -> Value | None:
            values = operands if at[0] == "operand" else results
            return self.same(values[at[1]]) if at[1] < len(values) else None

        for edge in edges:
            source = end(edge.source)
            for target in edge.targets:
                value = end(target)
                if source is None or value is None or value is source:
                    continue
                key, backward = (id(value), edge.axis), target[0] == "operand"
                known = self._arrivals.get(key)
                if known is None or edge.step < known.step:
                    self._arrivals[key] = _Arrival(edge.step, source, value, op, backward)

    # Where no edge was recorded -----------------------------------------------------------------

    def _search(self, start: Value, axis: str, seen: set[int]) -> tuple[list[Hop], Value] | None:
        """The nearest value with the axis of the same origin, whose way is known; with the hops that
        lead there, the last one first.
        """
        self.searches += self.is_recorded
        if self.is_exhausted:
            return None
        waiting: list[tuple[Value, list[Hop]]] = [(start, [])]
        visited = {id(start)}
        while waiting and len(visited) < _FAR:
            at, hops = waiting.pop(0)
            for op, backward, near in self._near(at):
                if id(near) in visited or id(near) in seen or not _alike(start, near, axis):
                    continue
                if not self.is_recorded and not self._is_one_dim(op, at, near, axis):
                    continue
                visited.add(id(near))
                path = [*hops, Hop(op, backward, at)]
                if self._known(near, axis) is not None or (id(near), axis) in self._arrivals:
                    return path, near
                waiting.append((near, path))
        return None

    def _is_one_dim(self, op: Op, one: Value, other: Value, axis: str) -> bool:
        """Returns whether the dims that an axis shards are one by the rule of an op, or their numbers."""
        dims = {id(each): each.axes.get(axis, each.written.get(axis, -1)) for each in (one, other)}
        factors: dict[int, set[str]] = {}
        for value, of in zip([*op.operands, *op.results], op.rule, strict=False):
            if 0 <= (dim := dims.get(id(self.same(value)), -1)) < len(of):
                factors.setdefault(id(self.same(value)), set()).update({*of[dim]} - op.blocked)
        if len(factors) == len(dims):
            return not factors[id(one)].isdisjoint(factors[id(other)])
        return dims[id(one)] == dims[id(other)]

    def _near(self, at: Value) -> Iterator[tuple[Op, bool, Value]]:
        """The values at the other ends of the ops that make or read a value; `backward` if the axis
        would come from a result.
        """
        if at.op is not None:
            op = at.op
            sources = self.sources(op, at.index) if op.regions or op.flows else op.operands
            yield from ((op, False, self.same(each)) for each in sources)
        if (entered := self._entered.get(id(at))) is not None:
            yield entered, False, self.same(entered.operands[at.index])
        for op, place in at.users:
            if op.kind == MANUAL:
                yield from (
                    (op, True, argument) for argument in op.regions[0].arguments[place : place + 1]
                )
            elif op.kind == "stablehlo.while":
                yield op, True, op.results[place]
            elif not op.regions:
                yield from ((op, True, each) for each in op.results)
                yield from ((op, True, self.same(each)) for each in op.operands if each is not at)
        for op, index in self._yielded.get(id(at), ()):
            yield op, True, op.results[index]

    @cached_property
    def _entered(self) -> Mapping[int, Op]:
        return {
            id(argument): op
            for op in self.graph.ops
            if op.kind == MANUAL
            for region in op.regions
            for argument in region.arguments
        }

    @cached_property
    def _yielded(self) -> Mapping[int, Sequence[tuple[Op, int]]]:
        return by_key(
            (id(value), (op, index))
            for op in self.graph.ops
            for region in op.regions
            for index, value in enumerate(region.yields[: len(op.results)])
        )


def _alike(one: Value, other: Value, axis: str) -> bool:
    if axis in other.written:
        return True
    label = one.labels.get(axis)
    return axis in other.axes and (label is None or other.labels.get(axis) in (label, None, "self"))


def _spec(value: Value) -> tuple[tuple[str, ...], ...]:
    rank = max((len(value.shape), *(dim + 1 for dim in value.written.values())), default=0)
    return tuple(
        tuple(axis for axis, at in value.written.items() if at == dim) for dim in range(rank)
    )


def _aligned(
    results: list[Value], flows: tuple[tuple[Edge, ...], ...]
) -> Iterator[tuple[Value, tuple[Edge, ...]]]:
    """The edges of each result. Before JAX 0.12 results without edges have no entry: there an entry
    belongs to the one result that has its axes; where several have them, to none.
    """
    if len(flows) == len(results):
        yield from zip(results, flows, strict=True)
        return
    at = 0
    for place, edges in enumerate(flows):
        axes = {edge.axis for edge in edges}
        last = len(results) - (len(flows) - place - 1)
        fitting = [each for each in results[at:last] if axes <= set(each.axes)]
        if len(fitting) == 1:
            at = fitting[0].index + 1
            yield fitting[0], edges

"""Where a program loses its batch: dims of the batch are followed through the program as propagation
left it, until a mesh axis that sharded one of them shards it no more.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from spmd_core.facts import Accident, LostBatch, LostValue
from spmd_core.fields import padded
from spmd_core.program.hlo.lines import File, frame_of, place
from spmd_core.program.hlo.module import Computation, HloError, Instruction, Module, Shape
from spmd_core.program.hlo.sharding_attributes import Mesh, without_ones
from spmd_core.program.ir.flow import Flow
from spmd_core.program.ir.needed import Labels, numbers, passed
from spmd_core.program.ir.products import EVEN, LOST, OWN, PRODUCTS, sums_of
from spmd_core.program.ir.shardings import CONSTRAINT, last_part, sharding_of

SMALLEST = 2**16  # bytes over all devices: a smaller value costs nothing that matters
SHARE = 0.05  # of the program's matmul FLOPs that are computed with the batch lost
DROPPED = 0.5  # the same where a constraint drops it: an axis that names no dim of the value
MOST_PLACES = 4
_NOT_JUDGED = ("parameter", "tuple", "while", "call", "conditional")
_PASSED_ON = ("convert", "copy", "reshape", "transpose", "bitcast", "dynamic-slice", "slice")
_BACKWARD = "transpose("  # in the op names of a backward pass: those lines are JAX's


def lost_batch(
    module: Module,
    mesh: Mesh,
    batch: Sequence[int],
    file: File,
    partitioned: Module | None = None,
) -> LostBatch | None:
    """Returns where the batch is lost first, or None if it stays sharded.

    Args:
        module: the program after propagation, before partitioning.
        mesh: names and sizes of the mesh axes.
        batch: numbers of the entry's parameters that hold the batch.
        file: the program's own source files.
        partitioned: the program of one device after partitioning.
    """
    for is_meant, least in ((True, SHARE), (False, DROPPED)):
        walk = _walked(module, mesh, batch, is_meant)
        costly = {each for each, is_large in walk.products.items() if is_large}
        sums = sums_of(module, mesh, costly & walk.lost.keys(), file, partitioned)
        named = [(each, frame) for each in walk.first if (frame := frame_of(each.at, file))]
        if named and sums[LOST] >= least * sums[EVEN]:
            first, frame = named[0]
            return LostBatch(
                axes=first.axes,
                source=place(frame),
                work=sums[OWN] * math.prod(size for _, size in mesh) / sums[EVEN],
                share=sums[LOST] / sums[EVEN],
                places=_places(walk, file),
            )
    return None


def dropped_batch(
    module: Module, mesh: Mesh, batch: Sequence[int], file: File
) -> Iterator[Accident]:
    """Constraints that drop an axis of the batch although each use of their value is sharded over it
    again: the value is gathered for nothing. The arguments are those of `lost_batch`.
    """
    by_line: dict[str, Accident] = {}
    for each in _walked(module, mesh, batch, False).again.values():
        frame = frame_of(each.at, file)
        if frame and _BACKWARD not in (each.at.op_name or ""):
            source = place(frame)
            kept = Accident(kind="dropped_batch", axes=each.axes, source=source, spec=each.labels)
            by_line.setdefault(source, kept)
    yield from by_line.values()


def _walked(module: Module, mesh: Mesh, batch: Sequence[int], is_meant: bool) -> "BatchFlow":
    given = [[labels] for labels in _given(module.entry, mesh, batch)]
    entry = module.entry
    walk = BatchFlow(module, mesh, is_meant)
    walk.computation(entry, given)
    if walk.of_experts:  # which products after those that dispatch to them show
        walk = BatchFlow(module, mesh, is_meant, frozenset(walk.of_experts))
        walk.computation(entry, given)
    return walk


def _given(entry: Computation, mesh: Mesh, batch: Sequence[int]) -> Iterator[Labels]:
    """Yields the labels of each parameter. An axis that shards weights and a later dim of the batch is
    none: with sequence parallelism it moves from the sequence to features and back.
    """
    shardings = [sharding_of(each, entry, mesh) for each in entry.parameters]
    specs = [without_ones(each.spec, mesh) if each else () for each in shardings]
    of_weights = {
        axis for at, spec in enumerate(specs) if at not in batch for dim in spec for axis in dim
    }
    for at, each in enumerate(entry.parameters):
        labels = specs[at] if at in batch else ()
        first = next((dim for dim, axes in enumerate(labels) if axes), 0)
        kept = (
            axes if dim == first else tuple(axis for axis in axes if axis not in of_weights)
            for dim, axes in enumerate(labels)
        )
        yield padded(tuple(kept), len(each.shape.dims))


@dataclass(frozen=True)
class _Lost:
    at: Instruction
    axes: tuple[str, ...]
    labels: Labels


class BatchFlow(Flow[Labels]):
    """Follows the batch's dims: `lost` are the values that have lost an axis, by name, `first` those
    that are computed of values that have it, `kept_at` gathers, loop carries and constraints,
    `again` constraints that drop an axis which every use of their value has again. `of_experts` are
    axes that shard weights along a dim that products map over; from the batch to such a dim an axis
    of `experts` moves as tokens are dispatched, and is not lost.
    """

    def __init__(
        self, module: Module, mesh: Mesh, is_meant: bool, experts: frozenset[str] = frozenset()
    ) -> None:
        super().__init__(module)
        self.mesh, self.is_meant, self.experts = mesh, is_meant, experts
        self.of_experts = set[str]()
        self.lost: dict[str, _Lost] = {}
        self.first: list[_Lost] = []
        self.kept_at: dict[str, _Lost] = {}
        self.again: dict[str, _Lost] = {}
        self.products: dict[str, bool] = {}  # whether what it keeps of the batch exceeds the rest

    def of_array(
        self,
        each: Instruction,
        of: Computation,
        operands: Sequence[Labels],
        shapes: Sequence[Shape],
    ) -> Labels:
        """The labels that its operands pass on."""
        if each.opcode in PRODUCTS:
            self.products[each.name] = _is_large(each, operands, shapes)
            self.of_experts |= self._mapped(each, of, operands)
        return passed(each, operands, shapes)

    def _mapped(self, each: Instruction, of: Computation, operands: Sequence[Labels]) -> set[str]:
        """The axes of dims that a product with weights maps over, but the batch's."""
        sharding = sharding_of(each, of, self.mesh)
        if each.opcode != "dot" or sharding is None:
            return set()
        weights = [
            not any(labels) and _is_read(of.by_name[name], of)
            for name, labels in zip(each.operands, operands, strict=True)
        ]
        if sum(weights) != 1:
            return set()
        other = weights.index(False)
        dims = numbers(each, f"{('lhs', 'rhs')[other]}_batch_dims")
        mapped = zip(dims, sharding.spec, strict=False)  # which are the result's first
        return {axis for dim, axes in mapped if not operands[other][dim] for axis in axes}

    def of_arrays(
        self, each: Instruction, operands: Sequence[Labels], shapes: Sequence[Shape]
    ) -> list[Labels]:
        """Each result is like its operand."""
        arrays = each.shape.arrays
        pairs = zip(arrays, operands, shapes, strict=False)
        kept = [o if s.dims == a.dims else ((),) * len(a.dims) for a, o, s in pairs]
        return kept + [((),) * len(array.dims) for array in arrays[len(kept) :]]

    def union(self, one: Labels, other: Labels) -> Labels:
        """Each dim's label in either."""
        if len(one) != len(other):
            return one
        return tuple(a or b for a, b in zip(one, other, strict=True))

    def loop(self, each: Instruction, of: Computation, carried: list[Labels]) -> list[Labels]:
        """Records as first what its carry loses, before what its body does."""
        before, body = len(self.first), self.module.callee(each, "body")
        settled = super().loop(each, of, carried)
        if body:
            (start,) = (of.by_name[name] for name in each.operands)
            self.first[before:before] = self._entering(each, of, start, body, carried)
        return settled

    def _entering(
        self,
        loop: Instruction,
        of: Computation,
        start: Instruction,
        body: Computation,
        entered: list[Labels],
    ) -> list[_Lost]:
        """What a loop's carry loses that what enters the loop has; both ends of it may be
        constrained.
        """
        if start.opcode != "tuple" or body.root.opcode != "tuple":
            return []
        lost = []
        for each in body.instructions:
            if each.opcode != "get-tuple-element" or each.name not in self.lost:
                continue
            index = int(each.attributes.get("index") or 0)
            given, carry = of.by_name[start.operands[index]], self.lost[each.name]
            if not any(entered[index]) or body.root.operands[index] == each.name:
                continue
            self.kept_at |= {given.name: _Lost(given, carry.axes, entered[index])}
            returned = body.by_name[body.root.operands[index]]
            self.kept_at |= {returned.name: _Lost(returned, carry.axes, carry.labels)}
            if given.name not in self.lost:
                lost.append(_Lost(replace(each, frames=loop.frames), carry.axes, carry.labels))
        return lost

    def judge(self, each: Instruction, of: Computation, known: dict[str, list[Labels]]) -> None:
        """Record a value that has lost an axis. What the program constrains itself is meant; an axis
        that its constraint drops only where `is_meant`.
        """
        if each.opcode in _NOT_JUDGED or not each.shape.dims:
            return
        (labels,) = known[each.name] if len(known[each.name]) == 1 else ((),)
        sharding = sharding_of(each, of, self.mesh)
        if not any(labels) or sharding is None or _is_small(each):
            return
        moved = {axis for dim in sharding.spec for axis in dim}
        aside = {*sharding.manual, *(moved & self.experts)}
        axes = tuple(
            axis
            for axes, kept in zip(labels, sharding.spec, strict=True)
            for axis in axes
            if axis not in kept and axis not in aside
        )
        if not axes:
            return
        if is_constrained(each, of):
            if dropped := tuple(axis for axis in axes if axis not in moved | self.experts):
                self._regained(each, of, labels, sharding.spec, dropped)
            meant = axes if self.is_meant else tuple(axis for axis in axes if axis in moved)
            known[each.name] = [tuple(tuple(a for a in dim if a not in meant) for dim in labels)]
            axes = tuple(axis for axis in axes if axis not in meant)
            if not axes or last_part(each.op_name) != CONSTRAINT:
                return
        if each.name in self.lost:
            return
        lost = self.lost[each.name] = _Lost(each, axes, labels)
        if each.opcode == "gather" or last_part(each.op_name) == CONSTRAINT:
            self.kept_at[each.name] = lost
        if not any(name in self.lost for name in each.operands) and each.frames:
            self.first.append(lost)

    def _regained(
        self,
        each: Instruction,
        of: Computation,
        labels: Labels,
        spec: Labels,
        dropped: tuple[str, ...],
    ) -> None:
        """Records a constraint whose users are sharded over the axes that it drops."""
        lost = tuple(tuple(axis for axis in dim if axis in dropped) for dim in labels)
        users = of.users[each.name]
        uses = {self._has_again(user, of, each, lost) for user in users}
        uses |= {is_kept for user in users for is_kept in self._carried(user, of, each, lost)}
        if last_part(each.op_name) == CONSTRAINT and uses - {None} == {True}:
            spec = tuple((*a, *b) for a, b in zip(lost, spec, strict=True))
            self.again[each.name] = _Lost(each, dropped, spec)

    def _carried(
        self, user: Instruction, of: Computation, each: Instruction, lost: Labels
    ) -> Iterator[bool | None]:
        """Yields for each loop that a value enters, in a tuple, whether the loop carries it sharded
        over the axes of the value's dims.
        """
        loops = of.users[user.name] if user.opcode == "tuple" else ()
        bodies = [self.module.callee(loop, "body") for loop in loops if loop.opcode == "while"]
        for body in filter(None, bodies):
            for carried in body.users[body.parameters[0].name]:
                index = int(carried.attributes.get("index") or 0)
                if carried.opcode == "get-tuple-element" and user.operands[index] == each.name:
                    yield self._keeps(carried, body, lost)

    def _has_again(
        self, user: Instruction, of: Computation, each: Instruction, lost: Labels
    ) -> bool | None:
        """Whether a user is sharded over the axes of a value's dims; None where it passes none on."""
        operands = [of.by_name[name] for name in user.operands]
        given = [lost if one.name == each.name else ((),) * len(one.shape.dims) for one in operands]
        if user.shape.element == "tuple" or not user.shape.dims:
            return None
        dims = passed(user, given, [one.shape for one in operands])
        return self._keeps(user, of, dims)

    def _keeps(self, each: Instruction, of: Computation, dims: Labels) -> bool | None:
        """Whether a value is sharded over the axes of these dims; None where that is not known."""
        sharding = sharding_of(each, of, self.mesh)
        if not any(dims) or sharding is None:
            return None
        pairs = zip(dims, sharding.spec, strict=True)
        return all(axis in kept for dim, kept in pairs for axis in dim)


def _places(walk: BatchFlow, file: File) -> tuple[LostValue, ...]:
    """The lines of lost gathers and loop carries, in the program's order, and the spec with which
    each would keep the batch.
    """
    places: dict[str, LostValue] = {}
    for each in walk.kept_at.values():
        frame = frame_of(each.at, file)
        if frame and _BACKWARD not in (each.at.op_name or ""):
            value = LostValue(source=place(frame), spec=each.labels)
            places.setdefault(value.source, value)
    return tuple(places.values())[:MOST_PLACES]


def is_constrained(each: Instruction, of: Computation) -> bool:
    """Whether a value has its sharding by a with_sharding_constraint: its own, or its user's."""
    text = each.attributes.get("sharding")
    users = [user for user in of.users[each.name] if user.attributes.get("sharding") == text]
    return any(last_part(one.op_name) == CONSTRAINT for one in (each, *users))


def _is_large(each: Instruction, operands: Sequence[Labels], shapes: Sequence[Shape]) -> bool:
    """Whether a product's operand of the batch, or its result, has more elements than its weights:
    else it is cheaper to move the batch than to gather the weights.
    """
    sizes = [math.prod(shape.dims) for shape in shapes]
    weights = [size for size, labels in zip(sizes, operands, strict=True) if not any(labels)]
    return not weights or max(*sizes, math.prod(each.shape.dims)) > max(weights)


def _is_read(each: Instruction, of: Computation) -> bool:
    """Whether a value is an argument, or one of a loop, at most reshaped or cast."""
    while each.opcode in _PASSED_ON and each.operands:
        each = of.by_name[each.operands[0]]
    return each.opcode in ("parameter", "get-tuple-element")


def _is_small(each: Instruction) -> bool:
    try:
        return each.shape.bytes < SMALLEST
    except HloError:
        return True

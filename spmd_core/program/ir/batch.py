"""Where a program loses its batch: dims of the batch are followed through the program as propagation
left it, until a mesh axis that sharded one of them shards it no more.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from spmd_core.program.hlo.lines import File, frame_of, place
from spmd_core.program.hlo.module import Computation, HloError, Instruction, Module
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.hlo.trip_counts import trip_count
from spmd_core.program.ir.needed import numbers
from spmd_core.program.ir.passed import Labels, passed
from spmd_core.program.ir.shardings import CONSTRAINT, last_part, sharding_of
from spmd_core.results import LostBatch, LostValue

SMALLEST = 2**16  # bytes over all devices: a smaller value costs nothing that matters
SHARE = 0.05  # of the program's matmul FLOPs that are computed with the batch lost
MOST_PLACES = 4
_ROUNDS = 3  # in which what a loop carries is settled
_CALLS = ("call", "conditional")
_BACKWARD = "transpose("  # in the op names of a backward pass: those lines are JAX's


def lost_batch(module: Module, mesh: Mesh, batch: Sequence[int], file: File) -> LostBatch | None:
    """Returns where the batch is lost first, or None if it stays sharded.

    Args:
        module: the program after propagation, before partitioning.
        mesh: names and sizes of the mesh axes.
        batch: numbers of the entry's parameters that hold the batch.
        file: the program's own source files.
    """
    walk = _Walk(module, mesh)
    entry = module.entry
    given: list[list[Labels]] = []
    for number, each in enumerate(entry.parameters):
        sharding = sharding_of(each, entry, mesh)
        held = sharding.spec if sharding and number in batch else ((),) * len(each.shape.dims)
        given.append([walk.moving(held)])
    walk.computation(entry, given)
    work = _Work(module, mesh, walk.lost)
    even, own, without = work.computation(entry)
    named = [(each, frame) for each in walk.first if (frame := frame_of(each.at, file))]
    if not named or without < SHARE * even:
        return None
    first, frame = named[0]
    return LostBatch(
        axes=first.axes,
        source=place(frame),
        work=own * math.prod(size for _, size in mesh) / even,
        share=without / even,
        places=_places(walk, file),
    )


@dataclass(frozen=True)
class _Lost:
    at: Instruction
    axes: tuple[str, ...]
    labels: Labels


@dataclass
class _Walk:
    """Follows the batch's dims: `lost` are the values that have lost an axis, by name, `first` those
    that are computed of values that have it, `kept_at` gathers and loop carries.
    """

    module: Module
    mesh: Mesh
    lost: dict[str, _Lost] = field(default_factory=dict)
    first: list[_Lost] = field(default_factory=list)
    kept_at: dict[str, _Lost] = field(default_factory=dict)

    def moving(self, labels: Labels) -> Labels:
        """Without axes of size 1, which shard nothing."""
        sizes = dict(self.mesh)
        return tuple(tuple(axis for axis in axes if sizes[axis] > 1) for axes in labels)

    def computation(self, of: Computation, given: Sequence[list[Labels]]) -> list[Labels]:
        """The labels of what a computation returns, of those of its parameters."""
        known: dict[str, list[Labels]] = {}
        for each in of.instructions:
            if each.opcode == "parameter":
                known[each.name] = list(given[int(each.argument)])
            else:
                known[each.name] = self._parts(each, of, known)
                self._judge(each, of, known)
        return known[of.root.name]

    def _parts(
        self, each: Instruction, of: Computation, known: Mapping[str, list[Labels]]
    ) -> list[Labels]:
        operands = [known[name] for name in each.operands]
        match each.opcode:
            case "tuple":
                return [part for parts in operands for part in parts]
            case "get-tuple-element":
                index = int(each.attributes.get("index") or 0)
                parts = operands[0]
                return [parts[index]] if index < len(parts) else [_none(each)]
            case "opt-barrier" | "optimization-barrier":
                return operands[0]
            case "while":
                return self._loop(each, of, operands[0])
            case "call" | "conditional":
                return self._called(each, operands)
        shapes = [of.by_name[name].shape for name in each.operands]
        if each.shape.element == "tuple":  # such as a sort's results, each like its operand
            arrays = each.shape.arrays
            pairs = zip(arrays, operands, shapes, strict=False)
            kept = [o[0] if s.dims == a.dims else ((),) * len(a.dims) for a, o, s in pairs]
            return kept + [((),) * len(array.dims) for array in arrays[len(kept) :]]
        return [passed(each, [parts[0] for parts in operands if parts], shapes)]

    def _loop(self, each: Instruction, of: Computation, carried: list[Labels]) -> list[Labels]:
        """What a loop carries: what enters it, with what its body adds."""
        (start,) = (of.by_name[name] for name in each.operands)
        body = self.module.callee(each, "body")
        if body is None:
            return carried
        before, entered = len(self.first), carried
        for _ in range(_ROUNDS):
            returned = self.computation(body, [carried])
            after = [_union(a, b) for a, b in zip(carried, returned, strict=True)]
            if after == carried:
                break
            carried = after
        self.first[before:before] = self._entering(each, of, start, body, entered)
        return carried

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

    def _called(self, each: Instruction, operands: Sequence[list[Labels]]) -> list[Labels]:
        """The result of what is called; of branches, which take an operand each, of all."""
        names = [name for name in each.called() if name in self.module.by_name]
        given = [list(operands)] if each.opcode == "call" else [[one] for one in operands[1:]]
        results = [
            self.computation(self.module.by_name[name], one)
            for name, one in zip(names, given, strict=False)
        ]
        if not results:
            return [_none(each)]
        joined = results[0]
        for other in results[1:]:
            joined = [_union(a, b) for a, b in zip(joined, other, strict=True)]
        return joined

    def _judge(self, each: Instruction, of: Computation, known: dict[str, list[Labels]]) -> None:
        """Record a value that has lost an axis; what the program constrains itself is meant."""
        if each.opcode in ("tuple", "while", "call", "conditional") or not each.shape.dims:
            return
        (labels,) = known[each.name] if len(known[each.name]) == 1 else ((),)
        sharding = sharding_of(each, of, self.mesh)
        if not any(labels) or sharding is None or _is_small(each):
            return
        axes = tuple(
            axis
            for axes, kept in zip(labels, sharding.spec, strict=True)
            for axis in axes
            if axis not in kept and axis not in sharding.manual
        )
        if not axes:
            return
        if _is_meant(each, of):
            known[each.name] = [tuple(tuple(a for a in dim if a not in axes) for dim in labels)]
            return
        lost = _Lost(each, axes, labels)
        if each.name in self.lost:
            return
        self.lost[each.name] = lost
        if each.opcode == "gather":
            self.kept_at[each.name] = lost
        if not any(name in self.lost for name in each.operands) and each.frames:
            self.first.append(lost)


@dataclass
class _Work:
    """Matmul FLOPs by computation: over all devices, of one device, and with the batch lost."""

    module: Module
    mesh: Mesh
    lost: Mapping[str, _Lost]
    known: dict[str, tuple[float, float, float]] = field(default_factory=dict)

    def computation(self, of: Computation) -> tuple[float, float, float]:
        """The three sums of a computation and of what it calls, loops as often as they run."""
        if of.name not in self.known:
            every = [self._instruction(each, of) for each in of.instructions]
            sums = [sum(column) for column in zip(*every, strict=True)]
            self.known[of.name] = (sums[0], sums[1], sums[2])
        return self.known[of.name]

    def _instruction(self, each: Instruction, of: Computation) -> tuple[float, float, float]:
        if each.opcode == "dot":
            return self._dot(each, of)
        if each.opcode == "while" and (body := self.module.callee(each, "body")):
            times = trip_count(self.module, of, each) or 1
            even, own, without = self.computation(body)
            return times * even, times * own, times * without
        if each.opcode in _CALLS:
            inside = [self.module.by_name[n] for n in each.called() if n in self.module.by_name]
            return max(map(self.computation, inside), default=(0.0, 0.0, 0.0))
        return 0.0, 0.0, 0.0

    def _dot(self, each: Instruction, of: Computation) -> tuple[float, float, float]:
        left = of.by_name[each.operands[0]]
        summed = numbers(each, "lhs_contracting_dims")
        flops = 2.0 * math.prod(each.shape.dims) * math.prod(left.shape.dims[dim] for dim in summed)
        result = sharding_of(each, of, self.mesh)
        axes = {axis for dim in result.spec for axis in dim} if result else set[str]()
        for side, name in zip(("lhs", "rhs"), each.operands, strict=True):
            sharding = sharding_of(of.by_name[name], of, self.mesh)
            for dim in numbers(each, f"{side}_contracting_dims"):
                axes |= set(sharding.spec[dim]) if sharding else set()
        parts = math.prod(size for name, size in self.mesh if name in axes)
        return flops, flops / parts, flops if each.name in self.lost else 0.0


def _places(walk: _Walk, file: File) -> tuple[LostValue, ...]:
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


def _is_meant(each: Instruction, of: Computation) -> bool:
    """Whether a value has its sharding by a with_sharding_constraint: its own, or its user's."""
    text = each.attributes.get("sharding")
    users = [user for user in of.users[each.name] if user.attributes.get("sharding") == text]
    return any(last_part(one.op_name) == CONSTRAINT for one in (each, *users))


def _is_small(each: Instruction) -> bool:
    try:
        return each.shape.bytes < SMALLEST
    except HloError:
        return True


def _union(one: Labels, other: Labels) -> Labels:
    return tuple(a or b for a, b in zip(one, other, strict=True)) if len(one) == len(other) else one


def _none(each: Instruction) -> Labels:
    return ((),) * len(each.shape.dims)

"""Products that a ring repeats: each of its devices multiplies every block that goes round by the
same values.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from spmd_core.program.hlo.module import Computation, HloError, Instruction, Module, Shape
from spmd_core.program.hlo.replica_groups import parse_pairs
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.hlo.trip_counts import trip_count
from spmd_core.program.ir.flow import Flow
from spmd_core.program.ir.varying import Axes, Varying

Shifts = tuple[tuple[str, int], ...]  # axis -> devices that a value came along, none of 0
PRODUCTS = ("dot", "convolution")
PERMUTE = "collective-permute"
_OWN = ("op_name", "metadata", "sharding", "channel_id", "backend_config", "frontend_attributes")
_LEFT_OUT = (  # each a value of its own
    *("all-", "reduce-scatter", "collective-", "ragged-", "send", "recv"),
    *("partition-id", "replica-id", "rng", "custom-call", "infeed", "after-all"),
)


@dataclass(frozen=True)
class Form:
    """How a value is computed, on each device of the value that its neighbor has: two of one `key`
    are the same, of devices that are `shifts` apart.

    Attributes:
        key: number of what computes it.
        shifts: how far along each axis the values came that it is computed of.
        turns: the loops through which it came on, one device's way more each turn.
        changing: the loops in which it is another value each turn, for another reason.
    """

    key: int
    shifts: Shifts = ()
    turns: frozenset["Turn"] = frozenset()
    changing: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Turn:
    """A loop that passes a value on along an axis, by so many devices each turn."""

    loop: str
    axis: str
    by: int
    times: int


@dataclass
class _Numbers:
    """Numbers what is equal alike."""

    known: dict[object, int] = field(default_factory=dict)

    def of(self, key: object) -> int:
        return self.known.setdefault(key, len(self.known))

    def new(self) -> int:
        return self.of(("new", len(self.known)))


class Rings(Flow[Form]):
    """Finds the products of a module that are `alike` along an axis, by their names."""

    def __init__(self, module: Module, mesh: Mesh, varying: Varying) -> None:
        super().__init__(module)
        self.mesh, self.varying = mesh, varying.known
        self._numbers = _Numbers()
        self._products: list[tuple[str, Form]] = []
        self._is_trial = False
        self.alike: Mapping[str, Axes] = {}
        if any(each.opcode == PERMUTE for of in module.computations for each in of.instructions):
            self.computation(module.entry, [[self._new()] for _ in module.entry.parameters])
            self.alike = self._alike()

    def of_array(
        self,
        each: Instruction,
        of: Computation,
        operands: Sequence[Form],
        shapes: Sequence[Shape],
    ) -> Form:
        """A value of what its operands have in common, or one of its own."""
        if each.opcode == PERMUTE and (step := ring_step(each, self.mesh)):
            (form,) = operands
            return replace(form, shifts=added(form.shifts, *step, self.mesh))
        form = self._common(each, operands)
        if each.opcode in PRODUCTS and not self._is_trial:
            self._products.append((each.name, form))
        return form

    def of_arrays(
        self, each: Instruction, operands: Sequence[Form], shapes: Sequence[Shape]
    ) -> list[Form]:
        """Values of their own."""
        return [self._opaque(operands) for _ in each.arrays]

    def union(self, one: Form, other: Form) -> Form:
        """A value of its own."""
        return one if one == other else self._opaque([one, other])

    def called(self, each: Instruction, operands: Sequence[list[Form]]) -> list[Form]:
        """As any, but for branches: not every device takes the same."""
        if each.opcode == "conditional":
            operands = [[self._opaque([form]) for form in forms] for forms in operands]
        return super().called(each, operands)

    def loop(self, each: Instruction, of: Computation, carried: list[Form]) -> list[Form]:
        """What a loop leaves: as it entered what it does not change, else values of their own."""
        body = self.module.callee(each, "body")
        if body is None:
            return [self._opaque([form]) for form in carried]
        times = trip_count(self.module, of, each) or 0
        symbols = [self._new() for _ in carried]
        was, self._is_trial = self._is_trial, True
        returned = self.computation(body, [symbols])
        self._is_trial = was
        given = [
            self._entering(each.name, times, *ends)
            for ends in zip(carried, symbols, returned, strict=True)
        ]
        self.computation(body, [given])
        pairs = zip(carried, symbols, returned, strict=True)
        return [form if new == old else self._opaque(carried) for form, old, new in pairs]

    def _entering(self, loop: str, times: int, form: Form, symbol: Form, after: Form) -> Form:
        """What the body gets of a value at its first turn, with what changes in the others."""
        if after == symbol:
            return form
        if after.key == symbol.key and len(after.shifts) == 1 and not after.turns and times:
            ((axis, by),) = after.shifts
            return replace(form, turns=form.turns | {Turn(loop, axis, by, times)})
        return Form(self._numbers.new(), changing=form.changing | {loop})

    def _common(self, each: Instruction, operands: Sequence[Form]) -> Form:
        if each.opcode == "copy":
            return operands[0]
        if each.opcode.startswith(_LEFT_OUT):
            return self._opaque(operands)
        if not operands:  # such as a constant
            return Form(self._numbers.of((each.opcode, str(each.shape), each.argument)))
        varies = [self.varying.get(name, Axes()) for name in each.operands]
        shifts: dict[str, int] = {}
        for axis, _ in self.mesh:
            of = {
                dict(f.shifts).get(axis, 0)
                for f, v in zip(operands, varies, strict=False)
                if axis in v
            }
            ways = {_ways(f, axis) for f, v in zip(operands, varies, strict=False) if axis in v}
            if len(of) > 1 or len(ways) > 1:
                return self._opaque(operands)
            shifts |= dict.fromkeys([axis] * any(of), *of or (0,))
        own = tuple((k, v) for k, v in sorted(each.attributes.items()) if k not in _OWN)
        key = (each.opcode, str(each.shape), own, tuple(form.key for form in operands))
        turns = frozenset[Turn]().union(*(form.turns for form in operands))
        changing = frozenset[str]().union(*(form.changing for form in operands))
        return Form(self._numbers.of(key), tuple(shifts.items()), turns, changing)

    def _opaque(self, operands: Sequence[Form]) -> Form:
        loops = {turn.loop for form in operands for turn in form.turns}
        changing = frozenset(loops).union(*(form.changing for form in operands))
        return Form(self._numbers.new(), changing=changing)

    def _new(self) -> Form:
        return Form(self._numbers.new())

    def _alike(self) -> Mapping[str, Axes]:
        groups = defaultdict[tuple[int, str, Shifts], list[tuple[str, Form]]](list)
        for name, form in self._products:
            for axis, _ in self.mesh:
                others = tuple(each for each in form.shifts if each[0] != axis)
                groups[form.key, axis, others].append((name, form))
        alike: dict[str, set[str]] = defaultdict(set)
        apart: dict[str, set[str]] = defaultdict(set)
        for (_, axis, _), group in groups.items():
            is_alike = self._goes_round(axis, [form for _, form in group])
            for name, _ in group:
                (alike if is_alike else apart)[name].add(axis)
        return {name: Axes(axes - apart[name]) for name, axes in alike.items()}

    def _goes_round(self, axis: str, forms: Sequence[Form]) -> bool:
        """Whether the same product of forms a device apart is computed for each device of an axis."""
        size, met = dict(self.mesh)[axis], set[int]()
        for form in forms:
            first = dict(form.shifts).get(axis, 0)
            if any(each.loop in form.changing for each in form.turns) or len(form.turns) > 1:
                return False
            if any(each.axis != axis for each in form.turns):
                return False
            turn = next(iter(form.turns), None)
            met |= {(first + turn.by * at) % size for at in range(turn.times)} if turn else {first}
        return len(met) == size > 1


def ring_step(each: Instruction, mesh: Mesh) -> tuple[str, int] | None:
    """The axis along which a permutation passes each device's value on to another, and by how many
    devices; None of any other.
    """
    try:
        pairs = parse_pairs(each.attributes.get("source_target_pairs", "{}"))
    except HloError:
        return None
    sizes = tuple(size for _, size in mesh)
    if len(pairs) != math.prod(sizes) or (pairs >= math.prod(sizes)).any():
        return None
    places = [np.stack(np.unravel_index(ends, sizes)) for ends in pairs.T]
    moved = (places[1] - places[0]) % np.array(sizes)[:, None]
    if (moved != moved[:, :1]).any() or np.count_nonzero(moved[:, 0]) != 1:
        return None
    (at,) = np.flatnonzero(moved[:, 0])
    return mesh[at][0], int(moved[at, 0])


def added(shifts: Shifts, axis: str, by: int, mesh: Mesh) -> Shifts:
    """Returns the shifts of a value after one more permutation."""
    now = dict(shifts)
    now[axis] = (now.get(axis, 0) + by) % dict(mesh)[axis]
    return tuple((name, now[name]) for name, _ in mesh if now.get(name))


def _ways(form: Form, axis: str) -> frozenset[tuple[str, int]]:
    return frozenset((each.loop, each.by) for each in form.turns if each.axis == axis)

"""What each turn of a ring does: which permutations bring a block that is used, and which products are
put together to what leaves a shard_map.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from spmd_core.program.hlo.module import Computation, Instruction, Module, Shape
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.hlo.trip_counts import trip_count
from spmd_core.program.ir.device_numbers import numbers_of
from spmd_core.program.ir.flow import Flow
from spmd_core.program.ir.rings import PERMUTE, Shifts, added, ring_step
from spmd_core.program.ir.varying import is_entry

_LEAVES = '"SPMDShardToFullShape"'
_PASSED = (  # on as they are, to what may use them
    *("tuple", "get-tuple-element", "opt-barrier", "optimization-barrier", "copy"),
    *("while", "call", "conditional"),
)
_MOST = 50_000  # operations that are looked at, turns of loops one by one


@dataclass(frozen=True, eq=False)
class Value:
    """A value of one turn.

    Attributes:
        base: number of what it was before it was permuted.
        shifts: how far along each axis it came; none of a block that is home again.
        sent: number of the permutation that brought it.
        number: a scalar, by device.
        made: the array that entered, the product, or what products were put into.
    """

    base: int
    shifts: Shifts = ()
    sent: int | None = None
    number: np.ndarray | None = None
    made: "Entered | BlockProduct | Filled | None" = None


@dataclass(frozen=True, eq=False)
class Entered:
    """An array that enters a shard_map."""

    each: Instruction
    of: Computation


@dataclass(frozen=True, eq=False)
class BlockProduct:
    """A product of two values; `bases` are those of it, and of it in other dtypes."""

    each: Instruction
    of: Computation
    operands: tuple[Value, Value]
    bases: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Filled:
    """What products are put into, each at its starts; `bases` are those of it as it was filled."""

    shape: Shape
    parts: tuple[tuple[BlockProduct, tuple[np.ndarray | None, ...]], ...]
    bases: tuple[int, ...]


@dataclass(frozen=True)
class Permute:
    """A permutation that runs `times`, in a loop of so many `turns`, 0 of none: of what another one
    brought, where `of` is not None.
    """

    each: Instruction
    of: int | None
    step: tuple[str, int]
    times: int
    turns: int


@dataclass
class Turns(Flow[Value]):
    """Goes through a program, through loops with rings turn by turn.

    Attributes:
        permutes: the permutations around rings, in the order in which they run.
        used: numbers of those whose block something computes with, or that may be.
        uses: names of the operations that use a value: by its base, and whether it was permuted.
        leaving: what leaves a shard_map filled with products.
    """

    module: Module
    mesh: Mesh
    permutes: list[Permute] = field(default_factory=list)
    used: set[int] = field(default_factory=set)
    uses: dict[tuple[int, bool], list[str]] = field(default_factory=lambda: defaultdict(list))
    leaving: list[tuple[Filled, Instruction, Computation]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._bases, self._times, self._turns, self._left = 0, 1, 0, _MOST
        self.devices = prod(size for _, size in self.mesh)
        if any(
            each.opcode == PERMUTE for of in self.module.computations for each in of.instructions
        ):
            given = self.module.entry.parameters
            starts = [[self._new() for _ in range(max(1, len(e.arrays)))] for e in given]
            self._use(self.computation(self.module.entry, starts))

    def of_array(
        self,
        each: Instruction,
        of: Computation,
        operands: Sequence[Value],
        shapes: Sequence[Shape],
    ) -> Value:
        """A scalar by device, a block that is passed on, what products are made of; else a new value."""
        if each.opcode == "copy":
            return operands[0]
        numbers = [value.number for value in operands]
        if (number := numbers_of(each, numbers, self.devices)) is not None:
            return replace(self._new(), number=number)
        if each.opcode == PERMUTE and (step := ring_step(each, self.mesh)):
            return self._sent(each, operands[0], step)
        new = self._new()
        if is_entry(each):
            return replace(new, made=Entered(each, of))
        if each.attributes.get("custom_call_target") == _LEAVES:
            if isinstance(made := operands[0].made, Filled):
                self.leaving.append((made, each, of))
        elif each.opcode == "dot":
            return replace(
                new, made=BlockProduct(each, of, (operands[0], operands[1]), (new.base,))
            )
        elif each.opcode == "convert" and isinstance(made := operands[0].made, BlockProduct):
            return replace(new, made=replace(made, bases=(*made.bases, new.base)))
        elif each.opcode == "dynamic-update-slice":
            return replace(new, made=self._filled(each, operands, new.base))
        return new

    def of_arrays(
        self, each: Instruction, operands: Sequence[Value], shapes: Sequence[Shape]
    ) -> list[Value]:
        """New values."""
        return [self._new() for _ in each.arrays]

    def judge(self, each: Instruction, of: Computation, known: dict[str, list[Value]]) -> None:
        """Keep what the operation uses."""
        is_ring = each.opcode == PERMUTE and ring_step(each, self.mesh)
        if each.opcode not in _PASSED and not is_ring:
            for name in each.operands:
                self._use(known[name], each.name)

    def called(self, each: Instruction, operands: Sequence[list[Value]]) -> list[Value]:
        """As any, but for branches, which may use all that they are given."""
        is_known = all(name in self.module.by_name for name in each.called())
        if each.opcode == "call" and each.called() and is_known:
            return super().called(each, operands)
        for parts in operands:
            self._use(parts)
        return []

    def loop(self, each: Instruction, of: Computation, carried: list[Value]) -> list[Value]:
        """What is left after all turns; of a loop around others with rings, one turn of any."""
        body, turns = self.module.callee(each, "body"), trip_count(self.module, of, each) or 0
        size = len(body.instructions) if body else 0
        if body is not None and turns and self._has_ring(body) and turns * size < self._left:
            outside, self._turns = self._turns, turns
            for _ in range(turns):
                self._left -= size
                carried = self.computation(body, [carried])
            self._turns = outside
            return carried
        self._use(carried)
        if body is not None and turns and size < self._left:
            self._left -= size
            self._times *= turns
            self._use(self.computation(body, [[self._new() for _ in carried]]))
            self._times //= turns
        return [self._new() for _ in carried]

    def _has_ring(self, of: Computation) -> bool:
        """Whether a computation permutes, or what it calls; not in a loop of its own."""
        called = (
            self.module.by_name[name]
            for each in of.instructions
            if each.opcode == "call"
            for name in each.called()
            if name in self.module.by_name
        )
        return any(each.opcode == PERMUTE for each in of.instructions) or any(
            map(self._has_ring, called)
        )

    def _sent(self, each: Instruction, value: Value, step: tuple[str, int]) -> Value:
        shifts = added(value.shifts, *step, self.mesh)
        self.permutes.append(Permute(each, value.sent, step, self._times, self._turns))
        made = value.made if isinstance(value.made, Entered) else None
        return Value(value.base, shifts, len(self.permutes) - 1 if shifts else None, made=made)

    def _filled(self, each: Instruction, operands: Sequence[Value], base: int) -> Filled | None:
        into, part, *starts = operands
        if not isinstance(part.made, BlockProduct):
            return None
        filled = into.made if isinstance(into.made, Filled) else Filled(each.shape, (), ())
        new = (part.made, tuple(one.number for one in starts))
        return Filled(each.shape, (*filled.parts, new), (*filled.bases, base))

    def _use(self, values: Sequence[Value], name: str = "") -> None:
        for value in values:
            self.uses[value.base, bool(value.shifts)].append(name)
            if value.sent is not None:
                self.used.add(value.sent)

    def _new(self) -> Value:
        self._bases += 1
        return Value(self._bases)

    def needed(self) -> set[int]:
        """Returns the numbers of permutations whose block is used, at that place or further on."""
        numbers = set[int]()
        for at in self.used:
            numbers.update(self._behind(at))
        return numbers

    def _behind(self, at: int | None) -> Iterator[int]:
        while at is not None:
            yield at
            at = self.permutes[at].of

"""Along which manual axes the values inside a shard_map differ from device to device, as the type of
a value in JAX has it.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from spmd_core.program.hlo.module import Computation, HloError, Instruction, Module, Shape
from spmd_core.program.hlo.replica_groups import axes_of, parse_groups, parse_pairs
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.ir.flow import Flow
from spmd_core.program.ir.shardings import sharding_of

Axes = frozenset[str]
_ALIKE = ("all-gather", "all-reduce", "collective-broadcast")  # along the axes of their groups
_APART = ("reduce-scatter", "all-to-all", "ragged-all-to-all")  # along these axes, whatever enters
_NUMBERS: Mapping[str, Callable[..., np.ndarray]] = {  # of none that are negative
    "and": np.bitwise_and,
    "shift-right-logical": np.right_shift,
    "divide": np.floor_divide,
    "remainder": np.remainder,
    "convert": np.asarray,
    "copy": np.asarray,
}
_ENTERS = '"SPMDFullToShardShape"'


class Varying(Flow[Axes]):
    """The axes along which each value differs: of the arrays that enter a shard_map those of their
    specs, of what is computed of values those of any of them.
    """

    rounds = 64  # until what a loop carries is settled: an axis may pass through all of it

    def __init__(self, module: Module, mesh: Mesh) -> None:
        super().__init__(module)
        self.mesh, self.every = mesh, Axes(name for name, _ in mesh)
        self.known: dict[str, Axes] = {}
        self._numbers: dict[str, np.ndarray] = {}
        self._within: list[Axes] = []  # of the conditions that what is walked depends on
        self.computation(module.entry, [[Axes()] for _ in module.entry.parameters])

    def of_array(
        self,
        each: Instruction,
        of: Computation,
        operands: Sequence[Axes],
        shapes: Sequence[Shape],
    ) -> Axes:
        """The union over the operands, but for what collectives make alike, or take apart."""
        if (numbers := self._numbers_of(each)) is not None:
            self._numbers[each.name] = numbers
            return self._along(numbers)
        if each.opcode in ("partition-id", "replica-id"):
            return self.every
        axes = self._moved(each, Axes().union(*operands))
        return axes | self._entering(each, of) if is_entry(each) else axes

    def of_arrays(
        self, each: Instruction, operands: Sequence[Axes], shapes: Sequence[Shape]
    ) -> list[Axes]:
        """The same for each of several results."""
        return [self._moved(each, Axes().union(*operands))] * len(each.arrays)

    def union(self, one: Axes, other: Axes) -> Axes:
        """Along the axes of either."""
        return one | other

    def judge(self, each: Instruction, of: Computation, known: dict[str, list[Axes]]) -> None:
        """Keep it: a loop's body is entered several times, with more each time, and so is what
        several call.
        """
        if not known[each.name]:
            return
        if self._within:  # not every device computes it as often
            apart = Axes().union(*self._within)
            known[each.name] = [axes | apart for axes in known[each.name]]
        if each.shape.element != "tuple":
            self.known[each.name] = known[each.name][0] | self.known.get(each.name, Axes())

    def loop(self, each: Instruction, of: Computation, carried: list[Axes]) -> list[Axes]:
        """As any, where devices leave it after as many turns."""
        settled = super().loop(each, of, carried)
        condition = self.module.callee(each, "condition")
        apart = self.computation(condition, [settled])[0] if condition else Axes()
        if not apart:
            return settled
        self._within.append(apart)
        settled = super().loop(each, of, [axes | apart for axes in settled])
        self._within.pop()
        return settled

    def called(self, each: Instruction, operands: Sequence[list[Axes]]) -> list[Axes]:
        """As any, where devices take the same branch."""
        apart = operands[0][0] if each.opcode == "conditional" and operands[0] else Axes()
        if not apart:
            return super().called(each, operands)
        self._within.append(apart)
        results = [axes | apart for axes in super().called(each, operands)]
        self._within.pop()
        return results

    def _numbers_of(self, each: Instruction) -> np.ndarray | None:
        """The number that each device has of its own, as axis_index computes it; None of others."""
        if each.opcode == "partition-id":
            return np.arange(math.prod(size for _, size in self.mesh))
        if each.shape.dims or each.shape.element[:1] not in "su":
            return None
        if each.opcode == "constant" and each.argument.lstrip("-").isdigit():
            return np.full(math.prod(size for _, size in self.mesh), int(each.argument))
        given = [self._numbers.get(name) for name in each.operands]
        rule = _NUMBERS.get(each.opcode)
        if rule is None or any(numbers is None for numbers in given):
            return None
        if each.opcode in ("divide", "remainder") and not np.all(given[1]):
            return None
        return rule(*given)

    def _along(self, numbers: np.ndarray) -> Axes:
        placed = numbers.reshape([size for _, size in self.mesh])
        firsts = [placed.take([0], axis=at) for at in range(placed.ndim)]
        return Axes(
            name
            for (name, _), first in zip(self.mesh, firsts, strict=True)
            if (placed != first).any()
        )

    def _entering(self, each: Instruction, of: Computation) -> Axes:
        # of one that cannot be read each axis may divide it
        sharding = sharding_of(of.by_name[each.operands[0]], of, self.mesh)
        if sharding is None:
            return self.every
        return Axes(axis for dim in sharding.spec for axis in dim)

    def _moved(self, each: Instruction, axes: Axes) -> Axes:
        if each.opcode.removesuffix("-start") in _ALIKE:
            return axes - self._groups(each, Axes())
        if each.opcode.removesuffix("-start") in _APART:
            return axes | self._groups(each, self.every)
        if each.opcode.removesuffix("-start") == "collective-permute":
            return self._permuted(each, axes)
        return axes

    def _groups(self, each: Instruction, unknown: Axes) -> Axes:
        try:
            text = each.attributes.get("replica_groups", "{}")
            groups = parse_groups(text, math.prod(size for _, size in self.mesh))
            return Axes(axes_of(groups, self.mesh))
        except HloError:
            return unknown

    def _permuted(self, each: Instruction, axes: Axes) -> Axes:
        """Along these axes of the devices that a value comes from; one that gets none has zeros."""
        sizes = [size for _, size in self.mesh]
        try:
            pairs = parse_pairs(each.attributes.get("source_target_pairs", "{}"))
        except HloError:
            return self.every
        if pairs.size and pairs.max() >= math.prod(sizes):
            return self.every
        sources = np.full(math.prod(sizes), -1)
        sources[pairs[:, 1]] = pairs[:, 0]
        places = np.unravel_index(np.maximum(sources, 0), sizes)
        moved = [
            np.where(sources < 0, -1, place)
            for (name, _), place in zip(self.mesh, places, strict=True)
            if name in axes
        ]
        return Axes().union(*map(self._along, [sources < 0, *moved]))


def is_entry(each: Instruction) -> bool:
    """Whether an array enters a shard_map here."""
    return each.attributes.get("custom_call_target") == _ENTERS

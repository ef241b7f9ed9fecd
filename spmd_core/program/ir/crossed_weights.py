"""Weights whose axis shards what a product returns, where its other operand is sharded over that axis
in the dim that is summed: one of both is gathered, and the operand is the larger than the result.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from spmd_core.facts import Accident
from spmd_core.fields import Spec
from spmd_core.program.hlo.lines import File, line_of
from spmd_core.program.hlo.module import Computation, Instruction, Module, Shape
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.hlo.trip_counts import trip_count
from spmd_core.program.ir.flow import Flow
from spmd_core.program.ir.needed import numbers, summed_dims
from spmd_core.program.ir.shardings import sharding_of

LARGER = 2.0  # times as wide: the dims that are summed over those that the weights return
SMALLEST = 2**20  # bytes that a device gathers in a step
_SAME_VALUE = frozenset(
    ("bitcast", "convert", "copy", "dynamic-slice", "reshape", "slice", "transpose")
)
Numbers = frozenset[int]


@dataclass(frozen=True, slots=True)
class _Use:
    """A product of an operand with a weight: the number of its argument, the axes that both shard in
    different dims, the elements that are summed and returned, and how often it runs.
    """

    weight: int
    axes: tuple[str, ...]
    summed: int
    returned: int
    times: int
    operands: tuple[Instruction, Instruction]  # with the weight
    of: Computation
    product: Instruction


@dataclass
class _Uses(Flow[Numbers]):
    """Follows weights, as far as their values stay the same, to the products that they are in."""

    module: Module
    mesh: Mesh
    of_batch: Collection[str]
    times: int = 1
    uses: dict[str, dict[str, _Use]] = field(default_factory=dict)  # by operand, then product

    def of_array(
        self,
        each: Instruction,
        of: Computation,
        operands: Sequence[Numbers],
        shapes: Sequence[Shape],
    ) -> Numbers:
        """The weights that a value is one of."""
        return operands[0] if each.opcode in _SAME_VALUE and operands else Numbers()

    def of_arrays(
        self, each: Instruction, operands: Sequence[Numbers], shapes: Sequence[Shape]
    ) -> list[Numbers]:
        """None of several results is a weight."""
        return [Numbers() for _ in each.arrays]

    def union(self, one: Numbers, other: Numbers) -> Numbers:
        """Either of two."""
        return one | other

    def loop(self, each: Instruction, of: Computation, carried: list[Numbers]) -> list[Numbers]:
        """The same, with the turns of the loop counted."""
        before = self.times
        self.times *= trip_count(self.module, of, each) or 1
        try:
            return super().loop(each, of, carried)
        finally:
            self.times = before

    def judge(self, each: Instruction, of: Computation, known: dict[str, list[Numbers]]) -> None:
        """Keeps a product of a weight with what is none."""
        if each.opcode != "dot":
            return
        own = [known[name][0] for name in each.operands]
        if (at := next((at for at in (0, 1) if own[at] and not own[1 - at]), None)) is None:
            return
        operand = of.by_name[each.operands[1 - at]]
        use = self._use(each, of, at, operand, min(own[at]))
        if use:
            self.uses.setdefault(f"{of.name} {operand.name}", {})[each.name] = use

    def _use(
        self, each: Instruction, of: Computation, at: int, operand: Instruction, weight: int
    ) -> _Use | None:
        value = of.by_name[each.operands[at]]
        shardings = [sharding_of(one, of, self.mesh) for one in (operand, value)]
        if any(one is None or one.manual for one in shardings):
            return None
        given, own = (one.spec for one in shardings if one)
        summed, kept = summed_dims(each, at), [*range(len(value.shape.dims))]
        batch = numbers(each, f"{('lhs', 'rhs')[at]}_batch_dims")
        free = [dim for dim in kept if dim not in summed and dim not in batch]
        over = {axis for dim in summed_dims(each, 1 - at) for axis in given[dim]}
        over.difference_update(self.of_batch)
        axes = tuple(axis for dim in free for axis in own[dim] if axis in over)
        inside, outside = (
            math.prod(value.shape.dims[dim] for dim in dims) for dims in (summed, free)
        )
        both = (operand, value)
        return _Use(weight, axes, inside, outside, self.times, both, of, each)


def crossed_weights(
    module: Module, mesh: Mesh, weights: Mapping[str, int], of_batch: Collection[str], file: File
) -> Iterator[Accident]:
    """Yields the weights whose product gathers its operand over an axis that shards both, in different
    dims, where the dims that are summed have LARGER times the elements of those that the weights of
    that operand return: summing partial products sends less.

    Args:
        module: the program after propagation, before partitioning.
        mesh: names and sizes of the mesh axes.
        weights: path of each weight -> the number of its parameter in the entry.
        of_batch: axes that shard the batch, over which weights are gathered instead.
        file: the program's own source files.
    """
    given, paths = module.entry.parameters, {at: path for path, at in weights.items()}
    flow = _Uses(module, mesh, of_batch)
    starts = [
        [Numbers({at}) if at in paths else Numbers()] * max(1, len(each.arrays))
        for at, each in enumerate(given)
    ]
    flow.computation(module.entry, starts)
    worst: dict[int, Accident] = {}
    for uses in flow.uses.values():
        every = [*uses.values()]
        if every[0].summed < LARGER * sum(each.returned for each in every):
            continue
        for each in every:
            held = _gathered(each, mesh) if each.axes else 0
            if held < SMALLEST or held <= (worst[each.weight].bytes if each.weight in worst else 0):
                continue
            worst[each.weight] = Accident(
                kind="crossed_weight",
                path=paths[each.weight],
                axes=each.axes,
                bytes=held,
                dropped_at=line_of(each.product, file) or "",
                spec=_summed_over(given[each.weight], module.entry, mesh, each),
            )
    yield from sorted(worst.values(), key=lambda each: -each.bytes)


def _gathered(use: _Use, mesh: Mesh) -> int:
    """Bytes that a device takes in of the operand in a step, or of the weight where that is less."""
    sizes, taken = dict(mesh), list[int]()
    for each in use.operands:
        sharding = sharding_of(each, use.of, mesh)
        parts = math.prod(sizes[a] for dim in (sharding.spec if sharding else ()) for a in dim)
        taken.append(each.shape.bytes // parts)
    return use.times * min(taken) * (math.prod(sizes[axis] for axis in use.axes) - 1)


def _summed_over(weight: Instruction, entry: Computation, mesh: Mesh, use: _Use) -> Spec:
    """The weight's spec with the axes in the dim that is summed; () where that is not one of its own."""
    sharding, dims = sharding_of(weight, entry, mesh), weight.shape.dims
    if sharding is None:
        return ()
    moved = [tuple(axis for axis in dim if axis not in use.axes) for dim in sharding.spec]
    along = math.prod(dict(mesh)[axis] for axis in use.axes)
    at = [n for n, size in enumerate(dims) if size == use.summed and not moved[n]]
    if len(at) != 1 or use.summed % along:
        return ()
    return tuple(use.axes if n == at[0] else axes for n, axes in enumerate(moved))

"""The matmul FLOPs of a program after propagation: of one device, over all, and what of a device's
its neighbors along a mesh axis compute as well.
"""

import math
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from spmd_core.program.hlo.lines import File, line_of
from spmd_core.program.hlo.module import Computation, Instruction, Module
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.hlo.trip_counts import trip_count
from spmd_core.program.ir.needed import summed_dims
from spmd_core.program.ir.rings import PRODUCTS, Rings
from spmd_core.program.ir.shardings import CONSTRAINT, last_part, sharding_of
from spmd_core.program.ir.varying import Axes, Varying

EVEN, OWN, LOST = "even", "own", "lost"  # FLOPs over all devices, of one, and with a batch lost
# FLOPs over all devices that a shard_map has each device of an axis repeat, or a checkpoint compute again
MAPPED, RECOMPUTED = "mapped", "recomputed"
Sums = Counter[object]
_NEAR = 64  # values that are looked at for the constraint that drops an axis
_SAME = 0.01  # of FLOPs, by which counts of one product may differ
_REMATTED = "rematted_computation"  # as jax.checkpoint names what it computes again


class Products:
    """Sums FLOPs by computation: EVEN, OWN and LOST; (axis,) is a device's that its neighbors along
    the axis compute as well, (MAPPED, axis) those of them in a shard_map, (axis, line, constraint)
    those of a source line whose operands lose the axis by a constraint, an element type those whose wider operand is of it, and a `_key` those
    of a product. `more` are how many times the predicted FLOPs the partitioner gave a device.
    """

    def __init__(
        self,
        module: Module,
        mesh: Mesh,
        lost: Container[str],
        file: File,
        more: Mapping[object, float] = MappingProxyType({}),
    ) -> None:
        self.module, self.mesh, self.lost, self.file, self.more = module, mesh, lost, file, more
        self.known: dict[str, Sums] = {}
        varying = Varying(module, mesh)
        self._varying, self._alike = varying.known, Rings(module, mesh, varying).alike

    def computation(self, of: Computation) -> Sums:
        """The sums of a computation and of what it calls, loops as often as they run."""
        if of.name not in self.known:
            total = Sums()
            for each in of.instructions:
                total.update(self._instruction(each, of))
            self.known[of.name] = total
        return self.known[of.name]

    def _instruction(self, each: Instruction, of: Computation) -> Sums:
        if each.opcode in PRODUCTS:
            return self._product(each, of)
        if each.opcode == "while" and (body := self.module.callee(each, "body")):
            times = trip_count(self.module, of, each) or 1
            return Sums({key: times * flops for key, flops in self.computation(body).items()})
        if each.opcode in ("call", "conditional"):
            inside = [self.module.by_name[n] for n in each.called() if n in self.module.by_name]
            sums = map(self.computation, inside)
            return max(sums, default=Sums(), key=lambda each: each[OWN])
        return Sums()

    def _product(self, each: Instruction, of: Computation) -> Sums:
        operands = [of.by_name[name] for name in each.operands[:2]]
        result, axes = sharding_of(each, of, self.mesh), axes_at(each, of, self.mesh)
        for operand, dims in zip(operands, _summed(each), strict=True):
            sharding = sharding_of(operand, of, self.mesh)
            axes |= {axis for dim in dims for axis in sharding.spec[dim]} if sharding else set()
        if result is None and each.attributes.get("sharding"):
            # over parts of axes, such as two heads of keys and groups over one: none is known to
            # repeat
            axes = {axis for axis, _ in self.mesh}
        manual = set(result.manual) if result else set[str]()
        full = (flops := _flops(each, operands)) * self._parts(manual)
        own = flops / self._parts(axes := self._as_partitioned(each, of, axes))
        apart = Axes().union(*(self._varying.get(o.name, Axes()) for o in operands))
        axes |= manual & (apart - self._alike.get(each.name, Axes()))
        sums = Sums({EVEN: own * self._parts(axes), OWN: own, _key(each): own})
        if _REMATTED in (each.op_name or ""):
            sums[RECOMPUTED] = full  # type: ignore[assignment]
        elif manual - axes:
            sums[MAPPED] = full * (1 - 1 / self._parts(manual - axes))  # type: ignore[assignment]
        if each.name in self.lost:
            sums[LOST] = sums[EVEN]
        sums[max((operand.shape.element for operand in operands), key=_bits)] += own  # type: ignore[assignment]
        line = line_of(each, self.file)
        for axis, size in self.mesh:
            if size > 1 and axis not in axes:
                sums[MAPPED, axis] += own * (axis in manual)  # type: ignore[assignment]
                sums[axis,] = sums[axis, line, self._dropped(each, of, axis)] = own  # type: ignore[assignment]
        return sums

    def _as_partitioned(self, each: Instruction, of: Computation, axes: set[str]) -> set[str]:
        # other axes than those of its result and its sums where its FLOPs need them, and as few others
        parts, near = self._parts(axes) / self.more.get(_key(each), 1.0), [axes]
        if not math.isclose(parts, self._parts(axes), rel_tol=_SAME):
            every = axes.union(*(axes_at(of.by_name[n], of, self.mesh) for n in each.operands))
            some = (set(s) for n in range(len(every) + 1) for s in combinations(sorted(every), n))
            near = [s for s in some if math.isclose(self._parts(s), parts, rel_tol=_SAME)]
        return min(near, key=lambda some: len(some ^ axes), default=axes)

    def _dropped(self, each: Instruction, of: Computation, axis: str) -> str:
        """The line of the constraint by which a product, or what it is computed of, loses an axis."""
        own = (one for one in of.users[each.name] if last_part(one.op_name) == CONSTRAINT)
        waiting = [(each, next((line_of(one, self.file) for one in own), None))]
        for at, line in waiting:
            for near in (of.by_name[name] for name in at.operands if len(waiting) < _NEAR):
                if axis not in axes_at(near, of, self.mesh):
                    is_one = last_part(near.op_name) == CONSTRAINT
                    waiting.append((near, line_of(near, self.file) if is_one else line))
                elif line:
                    return line
        return ""

    def _parts(self, axes: Container[str]) -> int:
        return math.prod(size for name, size in self.mesh if name in axes)


def sums_of(
    module: Module, mesh: Mesh, lost: Container[str], file: File, partitioned: Module | None
) -> Sums:
    """Returns the sums of a program, each product divided as the partitioned program divides it."""
    sums = Products(module, mesh, lost, file).computation(module.entry)
    if partitioned:
        done = Products(partitioned, (), (), file).computation(partitioned.entry)
        more = {key: done[key] / flops for key, flops in sums.items() if done[key] and flops}
        sums = Products(module, mesh, lost, file, more).computation(module.entry)
    return sums


def _key(each: Instruction) -> str:
    # what a product keeps when it is partitioned: its place in the source, and its dims
    return f"{each.op_name} {each.frames} {[v for k, v in each.attributes.items() if k.endswith(('ing_dims', '_labels'))]}"


def axes_at(each: Instruction, of: Computation, mesh: Mesh) -> set[str]:
    """Returns the mesh axes that shard a value."""
    sharding = sharding_of(each, of, mesh)
    return {axis for dim in sharding.spec for axis in dim} if sharding else set()


def _bits(element: str) -> int:
    return int(element.lstrip("abcdefghijklmnopqrstuvwxyz").partition("e")[0] or 0)


def _summed(each: Instruction) -> tuple[Sequence[int], Sequence[int]]:
    """The dims of both operands that are summed over: of a convolution its kernel's, all but one."""
    if each.opcode == "dot":
        return summed_dims(each, 0), summed_dims(each, 1)
    left, right, _ = _labels(each)
    return [left.index("f")], [dim for dim, label in enumerate(right) if label != "o"]


def _flops(each: Instruction, operands: Sequence[Instruction]) -> float:
    """2 for each multiply-add; a convolution's window counts its padding."""
    left, right = (operand.shape.dims for operand in operands)
    if each.opcode == "dot":
        summed = math.prod(left[dim] for dim in _summed(each)[0])
    else:
        summed = math.prod(right) // max(1, right[_labels(each)[1].index("o")])
    return 2.0 * math.prod(each.shape.dims) * summed


def _labels(each: Instruction) -> tuple[str, str, str]:
    given, _, result = each.attributes["dim_labels"].partition("->")
    left, _, right = given.partition("_")
    return left, right, result

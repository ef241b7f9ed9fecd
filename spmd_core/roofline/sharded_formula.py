"""How long a sharded computation takes, in closed form.

The formula orders candidates: it is near where a computation is one contraction, and only near
enough to separate good from bad where it is several.
"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from spmd_core.experiment import Sharded, rows_dim
from spmd_core.fields import Axes, Spec
from spmd_core.roofline.duration import Duration, Unknown
from spmd_core.roofline.formula import Formula, is_one_contraction
from spmd_core.roofline.time_model import Sizes
from spmd_core.workloads import STRATEGIES, Array

Parts = dict[str, float]


@dataclass(frozen=True)
class ShardedFormula:
    """The formula of one sharding."""

    formula: Formula
    sharded: Sharded

    @cached_property
    def specs(self) -> Mapping[Array, Spec]:
        """How the sharding splits each operand, result, and what is between."""
        table, given = dict(self.sharded.table), dict(self.sharded.overrides)
        specs = {array: array.spec(self.formula.sizes, table) for array in self.formula.bytes}
        if given:
            arrays = self.formula.experiment.what.arrays
            specs |= {array: given[array.name] for array in arrays if array.name in given}
        return specs

    def parts(self, axes: Axes) -> int:
        """Devices along these mesh axes together."""
        return self.sharded.parts(axes)

    def shard_bytes(self, array: Array) -> float:
        """Bytes of an array on one device."""
        return self.formula.bytes[array] / math.prod(map(self.parts, self.specs[array]))

    @cached_property
    def held(self) -> float:
        """Bytes of operands and results on one device."""
        return sum(map(self.shard_bytes, self.formula.experiment.what.arrays))

    def seconds(self, strategy: str) -> Parts:
        """Seconds by kind, as a prediction's shares name them; infinite where one has no answer."""
        if STRATEGIES[strategy].is_single_device:
            arrays = self.formula.experiment.what.arrays
            nbytes = sum(self.formula.bytes[each] for each in arrays)
            return self._work(self.formula.flops, nbytes, None)
        if self.sharded.overrides:
            return min(map(self._by_plan, self._plans()), key=lambda parts: sum(parts.values()))
        return self._by_table()

    def _work(self, flops: float, nbytes: float, sizes: Sizes | None) -> Parts:
        times = self.formula.times
        matmul = _seconds(times.matmul(flops, sizes))
        parts = {"matmul": matmul, "memory": max(0.0, _seconds(times.memory(nbytes)) - matmul)}
        return parts | ({"dispatch": times.floor_s} if times.floor_s else {})

    def _matmul(self, split: dict[str, Axes]) -> Sizes | None:
        """Rows, inner and columns of a device's matmul where each dim's work is split over these
        axes; None where the workload is not a single contraction of two arrays.
        """
        what, sizes = self.formula.experiment.what, self.formula.sizes
        if not is_one_contraction(what) or not what.contracted:
            return None
        local = self._local(split)
        result, left = what.results[0], what.operands[0]
        rows = math.prod(local[dim] for dim in result.present(sizes) if dim in left.dims)
        columns = math.prod(local[dim] for dim in result.present(sizes) if dim not in left.dims)
        return rows, math.prod(local.get(dim, 1) for dim in what.contracted), columns

    def _local(self, split: Mapping[str, Axes]) -> dict[str, int]:
        """Size of each dim on one device, where its work is split over these axes."""
        sizes = self.formula.sizes
        return {dim: max(1, size // self.parts(split.get(dim, ()))) for dim, size in sizes.items()}

    def _flops(self, split: Mapping[str, Axes], devices: int) -> float:
        """Operations of one device. An axis that splits only some of the products of a computation
        repeats the others; a dim that occurs twice in a product is split in one place.
        """
        formula = self.formula
        local = formula.experiment.what.flops(self._local(split))
        return max(formula.flops / devices, float(local))

    def _by_table(self) -> Parts:
        """Each dim is sharded alike everywhere: sums over sharded dims, and gathers of what a
        program needs replicated.
        """
        table, what = dict(self.sharded.table), self.formula.experiment.what
        stored, work = self._split()
        used = tuple({axis for axes in table.values() for axis in axes})
        flops = self._flops(work, self.parts(used))
        parts = self._work(flops, self.held, self._matmul(work))
        for dim in what.contracted:
            if work.get(dim) and dim not in what.program.gathered:
                for array in self.formula.summed(dim):
                    self._add(parts, "all-reduce", work[dim], self.shard_bytes(array))
        share = self.formula.limits.sent_share
        for array in what.operands:
            parted = [
                dim for dim in present(array, self.specs[array]) if dim not in array.unsharded
            ]
            gathered = tuple(dict.fromkeys(axis for dim in parted for axis in stored.get(dim, ())))
            nbytes = self.shard_bytes(array) * share * self.parts(gathered)
            self._add(parts, "all-gather", gathered, nbytes)
        for array, dim in self.formula.gathered:
            if axes := table.get(dim):
                again = self.parts(axes) if dim not in array.unsharded else 1
                self._add(parts, "all-gather", axes, self.shard_bytes(array) * share * again)
        return parts

    def _split(self) -> tuple[dict[str, Axes], dict[str, Axes]]:
        """(dim -> axes over which it is only stored in parts, dim -> axes that split its work): an
        axis that shards two dims splits the work of the result's first, and so do those that a
        program gathers.
        """
        what, stored, work = self.formula.experiment.what, {}, {}
        rows = rows_dim(what, self.formula.sizes)
        taken = set(dict(self.sharded.table).get(rows, ()))
        for dim, axes in self.sharded.table:
            apart = tuple(
                axis
                for axis in axes
                if dim in what.program.gathered or (dim != rows and axis in taken)
            )
            stored[dim], work[dim] = apart, tuple(axis for axis in axes if axis not in apart)
        return stored, work

    def _add(self, parts: Parts, kind: str, axes: Axes, nbytes: float) -> None:
        if self.parts(axes) > 1:
            name = f"wait: {kind}"
            time = self.formula.times.collective(kind, self.sharded.mesh, axes, nbytes)
            parts[name] = parts.get(name, 0.0) + _seconds(time)

    def _plans(self) -> Iterator[dict[str, str]]:
        """Every way to split the work: mesh axis -> the dim of the loop that it shards."""
        dims = [dim for dim in self.formula.experiment.what.dims if dim in self.formula.sizes]
        axes = [axis for axis, size in self.sharded.mesh if size > 1]
        for chosen in itertools.product((None, *dims), repeat=len(axes)):
            yield {axis: dim for axis, dim in zip(axes, chosen, strict=True) if dim is not None}

    def _by_plan(self, plan: dict[str, str]) -> Parts:
        """Operands are moved to where the split needs them, the result to where it is wanted."""
        what = self.formula.experiment.what
        split = {dim: tuple(axis for axis, at in plan.items() if at == dim) for dim in what.dims}
        flops = self._flops(split, self.parts(tuple(plan)))
        parts = self._work(flops, self.held, self._matmul(split))
        for array in what.arrays:
            is_result = array in what.results
            stored = _places(array, self.specs[array])
            wanted = {axis: dim for axis, dim in plan.items() if dim in array.dims}
            before, after = (wanted, stored) if is_result else (stored, wanted)
            nbytes = self.formula.bytes[array] / self.parts(tuple(before))
            if is_result:
                summed = tuple(
                    axis
                    for axis, dim in plan.items()
                    if dim in what.contracted and dim not in array.dims
                )
                self._add(parts, "all-reduce", summed, nbytes)
            moved = tuple(
                axis for axis, dim in before.items() if axis in after and after[axis] != dim
            )
            self._add(parts, "all-to-all", moved, nbytes)
            lost = tuple(axis for axis in before if axis not in after)
            self._add(parts, "all-gather", lost, nbytes * self.parts(lost))
        return parts


def _seconds(time: Duration | Unknown) -> float:
    return math.inf if time.seconds is None else time.seconds


def _places(array: Array, spec: Spec) -> dict[str, str]:
    return {
        axis: dim for dim, axes in zip(present(array, spec), spec, strict=True) for axis in axes
    }


def pairs(array: Array, spec: Spec) -> set[tuple[str, str]]:
    """(dim of the array, mesh axis that shards it)."""
    return {(dim, axis) for axis, dim in _places(array, spec).items()}


def present(array: Array, spec: Spec) -> tuple[str, ...]:
    """Names of the dims that are there: those left out are the first ones."""
    return array.dims[len(array.dims) - len(spec) :]

"""How long a sharded computation takes, in closed form; and a lower bound that nothing beats.

The formula orders candidates: it is near where a computation is one contraction, and only near
enough to tell good from bad where it is several. The bound is made of what no program can do
without, at rates that no device passes, and it alone may prune.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from spmd_core.experiment.experiment import Experiment
from spmd_core.experiment.types import Axes, Spec
from spmd_core.search.array_space import Sharded, rows_dim
from spmd_core.search.rates import Rates, Sizes
from spmd_core.workloads.strategies import ONE_DEVICE
from spmd_core.workloads.workload import DTYPE_BYTES, Array, Workload, element_count

Parts = dict[str, float]


@dataclass(frozen=True)
class Formula:
    """An experiment's workload and sizes on devices of these rates."""

    experiment: Experiment
    rates: Rates
    devices: int

    def _bytes(self, array: Array) -> float:
        """Bytes of an array, unsharded."""
        return element_count(array.shape(self.experiment.sizes)) * self._width(array)

    def _width(self, array: Array) -> int:
        what, dtype = self.experiment.what, self.experiment.dtype
        return DTYPE_BYTES[what.result_dtype(dtype) if array in what.results else dtype]

    def held(self, sharded: Sharded) -> float:
        """Bytes of operands and results on one device."""
        what, sizes = self.experiment.what, self.experiment.sizes
        return sum(self._bytes(array) / _cut(sharded, sharded.spec(what, sizes, array.name))
                   for array in what.arrays)

    # The estimate --------------------------------------------------------------------------------

    def parts(self, sharded: Sharded, strategy: str) -> Parts:
        """Seconds by kind, as a prediction's shares name them."""
        what = self.experiment.what
        flops = what.flops(self.experiment.sizes)
        if strategy in ONE_DEVICE:
            whole = sum(map(self._bytes, what.arrays))
            return self._work(flops, whole, None)
        if sharded.overrides:
            return min((self._by_plan(sharded, flops, plan) for plan in self._plans(sharded)),
                       key=lambda parts: sum(parts.values()))
        return self._by_table(sharded, flops)

    def _work(self, flops: float, nbytes: float, sizes: Sizes | None) -> Parts:
        matmul, memory = self.rates.matmul_s(flops, sizes), self.rates.memory_s(nbytes)
        parts = {"matmul": matmul, "memory": max(0.0, memory - matmul)}
        return parts | ({"dispatch": self.rates.floor_s} if self.rates.floor_s else {})

    def _matmul(self, sharded: Sharded, split: dict[str, Axes]) -> Sizes | None:
        """Rows, inner and columns of a device's matmul where each dim's work is split over these
        axes; None where the workload is not a single contraction of two arrays.
        """
        what, sizes = self.experiment.what, self.experiment.sizes
        if not _is_one_contraction(what) or not what.contracted:
            return None
        local = {dim: max(1, sizes[dim] // sharded.parts(split.get(dim, ())))
                 for dim in what.dims if dim in sizes}
        result, left = what.results[0], what.operands[0]
        rows = math.prod(local[dim] for dim in result.present(sizes) if dim in left.dims)
        columns = math.prod(local[dim] for dim in result.present(sizes) if dim not in left.dims)
        return rows, math.prod(local.get(dim, 1) for dim in what.contracted), columns

    def _by_table(self, sharded: Sharded, flops: float) -> Parts:
        """Each dim is sharded alike everywhere: sums over sharded dims, and gathers of what a
        program needs replicated.
        """
        table, what = dict(sharded.table), self.experiment.what
        stored, work = self._split(sharded)
        used = {axis for axes in table.values() for axis in axes}
        parts = self._work(flops / sharded.parts(tuple(used)), self.held(sharded),
                           self._matmul(sharded, work))
        for dim in what.contracted:
            if work.get(dim) and dim not in what.program.gathered:
                for array in self._summed(dim):
                    self._add(parts, "all-reduce", sharded, work[dim],
                              self._bytes(array) / _cut(sharded, self._spec(array, sharded)))
        for array in what.operands:
            spec = self._spec(array, sharded)
            parted = [dim for dim in _present(array, spec) if dim not in array.whole]
            gathered = tuple(dict.fromkeys(axis for dim in parted for axis in stored.get(dim, ())))
            nbytes = self._bytes(array) / _cut(sharded, spec)
            self._add(parts, "all-gather", sharded, gathered, nbytes * sharded.parts(gathered))
        for array in what.program.between:
            for dim in array.whole:
                if table.get(dim):
                    self._add(parts, "all-gather", sharded, table[dim],
                              self._bytes(array) / _cut(sharded, self._spec(array, sharded)))
        return parts

    def _split(self, sharded: Sharded) -> tuple[dict[str, Axes], dict[str, Axes]]:
        """(dim -> axes over which it is only stored in parts, dim -> axes that split its work): an
        axis that shards two dims splits the work of the result's first, and so do those that a
        program gathers.
        """
        what, stored, work = self.experiment.what, {}, {}
        rows = rows_dim(what, self.experiment.sizes)
        taken = set(dict(sharded.table).get(rows, ()))
        for dim, axes in sharded.table:
            apart = tuple(axis for axis in axes if dim in what.program.gathered
                          or (dim != rows and axis in taken))
            stored[dim], work[dim] = apart, tuple(axis for axis in axes if axis not in apart)
        return stored, work

    def _spec(self, array: Array, sharded: Sharded) -> Spec:
        return array.spec(self.experiment.sizes, dict(sharded.table))

    def _summed(self, dim: str) -> list[Array]:
        """Arrays that are partial sums where a dim is sharded: what the program makes next of the
        last array that has the dim.
        """
        what = self.experiment.what
        between = list(what.program.between)
        last = max((place for place, array in enumerate(between) if dim in array.dims), default=-1)
        after = [array for array in between[last + 1:] if dim not in array.dims]
        return after[:1] or [array for array in what.results if dim not in array.dims]

    def _add(self, parts: Parts, kind: str, sharded: Sharded, axes: Axes, nbytes: float) -> None:
        if sharded.parts(axes) > 1:
            name = f"wait: {kind}"
            parts[name] = parts.get(name, 0.0) + self.rates.collective(kind, sharded.mesh, axes,
                                                                       nbytes)

    def _plans(self, sharded: Sharded) -> Iterator[dict[str, str]]:
        """Every way to split the work: mesh axis -> the dim of the loop that it shards."""
        dims = [dim for dim in self.experiment.what.dims if dim in self.experiment.sizes]
        axes = [axis for axis, size in sharded.mesh if size > 1]
        for chosen in itertools.product((None, *dims), repeat=len(axes)):
            yield {axis: dim for axis, dim in zip(axes, chosen, strict=True) if dim is not None}

    def _by_plan(self, sharded: Sharded, flops: float, plan: dict[str, str]) -> Parts:
        """Operands are moved to where the split needs them, the result to where it is wanted."""
        what, sizes = self.experiment.what, self.experiment.sizes
        split = {dim: tuple(axis for axis, at in plan.items() if at == dim) for dim in what.dims}
        parts = self._work(flops / sharded.parts(tuple(plan)), self.held(sharded),
                           self._matmul(sharded, split))
        for array in what.arrays:
            is_result = array in what.results
            stored = _places(array, sharded.spec(what, sizes, array.name))
            wanted = {axis: dim for axis, dim in plan.items() if dim in array.dims}
            before, after = (wanted, stored) if is_result else (stored, wanted)
            nbytes = self._bytes(array) / sharded.parts(tuple(before))
            if is_result:
                summed = tuple(axis for axis, dim in plan.items() if dim in what.contracted
                               and dim not in array.dims)
                self._add(parts, "all-reduce", sharded, summed, nbytes)
            moved = tuple(axis for axis, dim in before.items() if axis in after
                          and after[axis] != dim)
            self._add(parts, "all-to-all", sharded, moved, nbytes)
            lost = tuple(axis for axis in before if axis not in after)
            self._add(parts, "all-gather", sharded, lost, nbytes * sharded.parts(lost))
        return parts

    # The bound -----------------------------------------------------------------------------------

    def bound(self, sharded: Sharded, strategy: str) -> float:
        """Seconds that no program of this sharding can stay below: the largest of three roofs.

        All FLOPs over all devices, each operand's and result's shard through memory once, and what
        a device has to be sent, each at a rate that nothing passes.
        """
        flops = self.experiment.what.flops(self.experiment.sizes)
        if strategy in ONE_DEVICE:
            return 0.0  # one device may use all of the machine, where devices are simulated
        return max(flops / (self.devices * self.rates.most_flops),
                   self.held(sharded) / self.rates.most_bandwidth,
                   self.received(sharded) / self.rates.most_link)

    def received(self, sharded: Sharded) -> float:
        """The least bytes that a device has to be sent, of a single contraction; 0 of others.

        A device ends with its shard R of the result. Of an operand it misses what R needs and it
        does not hold: a share of R depends on that, all of R if a contracted dim is missing. For
        each part of R either the missing operand is sent, or the part (or a partial sum of it) is:
        at least the smaller of the two.
        """
        what, sizes = self.experiment.what, self.experiment.sizes
        if not _is_one_contraction(what):
            return 0.0
        result = what.results[0]
        wanted = _pairs(result, sharded.spec(what, sizes, result.name))
        size = self._bytes(result) / math.prod(sharded.parts((axis,)) for _, axis in wanted)
        most = 0.0
        for array in what.operands:
            stored = _pairs(array, sharded.spec(what, sizes, array.name))
            needs = {pair for pair in wanted if pair[0] in array.dims}
            needed = self._bytes(array) / math.prod(sharded.parts((axis,)) for _, axis in needs)
            both = needed / math.prod(sharded.parts((axis,)) for _, axis in stored - needs)
            share = 1 - both / needed
            most = max(most, min(needed - both, share * size))
        return most


def _is_one_contraction(what: Workload) -> bool:
    program = what.program
    return len(what.results) == 1 and not (program.between or program.gathered or program.halo)


def _cut(sharded: Sharded, spec: Spec) -> int:
    return math.prod(sharded.parts(axes) for axes in spec)


def _places(array: Array, spec: Spec) -> dict[str, str]:
    """Mesh axis -> the dim of the array that it shards."""
    return {axis: dim for dim, axes in zip(_present(array, spec), spec, strict=True)
            for axis in axes}


def _pairs(array: Array, spec: Spec) -> set[tuple[str, str]]:
    return {(dim, axis) for axis, dim in _places(array, spec).items()}


def _present(array: Array, spec: Spec) -> tuple[str, ...]:
    """Names of the dims that are there: those left out are the first ones."""
    return array.dims[len(array.dims) - len(spec):]

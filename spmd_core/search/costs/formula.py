"""How long a sharded computation takes, in closed form.

The formula orders candidates: it is near where a computation is one contraction, and only near
enough to tell good from bad where it is several.
"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from spmd_core.experiment import (
    DTYPE_BYTES,
    ONE_DEVICE,
    Array,
    Axes,
    Divides,
    Experiment,
    Spec,
    Workload,
    element_count,
)
from spmd_core.search.array_space import Dims, Sharded, rows_dim
from spmd_core.search.costs.rates import Rates, Sizes

Parts = dict[str, float]


@dataclass(frozen=True)
class Formula:
    """An experiment's workload and sizes on devices of these rates."""

    experiment: Experiment
    rates: Rates
    devices: int

    @cached_property
    def sizes(self) -> Dims:
        """Size of each dim that is there."""
        return dict(self.experiment.sizes)

    def bytes(self, array: Array) -> float:
        """Bytes of an array, unsharded."""
        if id(array) not in self._known:  # which a workload keeps
            what, dtype = self.experiment.what, self.experiment.dtype
            width = DTYPE_BYTES[what.result_dtype(dtype) if array in what.results else dtype]
            # heads beside kv_heads are those of one key head: both together are all heads
            dims = tuple(dim for dim in array.dims if self.tied.get(dim) not in array.dims)
            self._known[id(array)] = element_count(Array("", dims).shape(self.sizes)) * width
        return self._known[id(array)]

    @cached_property
    def _known(self) -> dict[int, float]:
        return {}

    def spec(self, array: Array, sharded: Sharded) -> Spec:
        """How a sharding splits an operand, a result, or what lies between."""
        if self._last.get("of") is not sharded:
            self._last.clear()
            self._last["of"] = sharded
            self._last["table"], self._last["given"] = dict(sharded.table), dict(sharded.overrides)
        given = self._last["given"]
        if given and array.name in given and array in self.experiment.what.arrays:
            return given[array.name]
        if id(array) not in self._last:
            self._last[id(array)] = array.spec(self.sizes, self._last["table"])
        return self._last[id(array)]

    @cached_property
    def _last(self) -> dict[Any, Any]:
        return {}  # of the sharding that was asked for last: everything is asked of one in turn

    def held(self, sharded: Sharded) -> float:
        """Bytes of operands and results on one device."""
        return sum(
            self.bytes(array) / _cut(sharded, self.spec(array, sharded))
            for array in self.experiment.what.arrays
        )

    # The estimate --------------------------------------------------------------------------------

    def parts(self, sharded: Sharded, strategy: str) -> Parts:
        """Seconds by kind, as a prediction's shares name them."""
        what = self.experiment.what
        flops = what.flops(self.experiment.sizes)
        if strategy in ONE_DEVICE:
            whole = sum(map(self.bytes, what.arrays))
            return self._work(flops, whole, None)
        if sharded.overrides:
            return min(
                (self._by_plan(sharded, flops, plan) for plan in self._plans(sharded)),
                key=lambda parts: sum(parts.values()),
            )
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
        if not is_one_contraction(what) or not what.contracted:
            return None
        local = {
            dim: max(1, sizes[dim] // sharded.parts(split.get(dim, ())))
            for dim in what.dims
            if dim in sizes
        }
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
        parts = self._work(
            flops / sharded.parts(tuple(used)), self.held(sharded), self._matmul(sharded, work)
        )
        for dim in what.contracted:
            if work.get(dim) and dim not in what.program.gathered:
                for array in self._summed(dim):
                    self._add(
                        parts,
                        "all-reduce",
                        sharded,
                        work[dim],
                        self.bytes(array) / _cut(sharded, self.spec(array, sharded)),
                    )
        share = self.rates.sent_share(self.experiment.dtype)
        for array in what.operands:
            spec = self.spec(array, sharded)
            parted = [dim for dim in _present(array, spec) if dim not in array.unsharded]
            gathered = tuple(dict.fromkeys(axis for dim in parted for axis in stored.get(dim, ())))
            nbytes = self.bytes(array) * share / _cut(sharded, spec)
            self._add(parts, "all-gather", sharded, gathered, nbytes * sharded.parts(gathered))
        for array, dim in self._gathered:
            if axes := table.get(dim):
                nbytes = self.bytes(array) * share / _cut(sharded, self.spec(array, sharded))
                again = sharded.parts(axes) if dim not in array.unsharded else 1
                self._add(parts, "all-gather", sharded, axes, nbytes * again)
        return parts

    @cached_property
    def _gathered(self) -> list[tuple[Array, str]]:
        """(array between operands and results, dim along which a program needs it whole). Of a dim
        that another is a multiple of (key heads, of query heads) it is the last array before the
        other takes its place.
        """
        what = self.experiment.what
        whole = [
            (array, dim)
            for array in what.program.between
            for dim in array.unsharded
            if dim not in self.tied or not what.program.passes
        ]
        return whole + [
            (array, dim)
            for array, after in self._steps
            for dim in array.dims
            if dim not in after.dims and self.tied.get(dim) in after.dims
        ]

    @cached_property
    def tied(self) -> dict[str, str]:
        """Dim -> the dim that is a multiple of it."""
        return {
            rule.dim: rule.other
            for rule in self.experiment.what.size_rules
            if isinstance(rule, Divides)
        }

    @cached_property
    def _steps(self) -> list[tuple[Array, Array]]:
        """(array, the next that is made of it), along what each operand passes through."""
        what = self.experiment.what
        return [
            pair
            for names, through in what.program.passes
            for name in names
            for pair in itertools.pairwise((what.array(name), *through, what.results[0]))
        ]

    def _split(self, sharded: Sharded) -> tuple[dict[str, Axes], dict[str, Axes]]:
        """(dim -> axes over which it is only stored in parts, dim -> axes that split its work): an
        axis that shards two dims splits the work of the result's first, and so do those that a
        program gathers.
        """
        what, stored, work = self.experiment.what, {}, {}
        rows = rows_dim(what, self.sizes)
        taken = set(dict(sharded.table).get(rows, ()))
        for dim, axes in sharded.table:
            apart = tuple(
                axis
                for axis in axes
                if dim in what.program.gathered or (dim != rows and axis in taken)
            )
            stored[dim], work[dim] = apart, tuple(axis for axis in axes if axis not in apart)
        return stored, work

    def _summed(self, dim: str) -> list[Array]:
        """Arrays that are partial sums where a dim is sharded: what the program makes next of the
        last array that has the dim.
        """
        what = self.experiment.what
        if what.program.passes:
            return list(
                dict.fromkeys(
                    after
                    for array, after in self._steps
                    if dim in array.dims
                    and dim not in after.dims
                    and self.tied.get(dim) not in after.dims
                )
            )
        between = list(what.program.between)
        last = max((place for place, array in enumerate(between) if dim in array.dims), default=-1)
        after = [array for array in between[last + 1 :] if dim not in array.dims]
        return after[:1] or [array for array in what.results if dim not in array.dims]

    def _add(self, parts: Parts, kind: str, sharded: Sharded, axes: Axes, nbytes: float) -> None:
        if sharded.parts(axes) > 1:
            name = f"wait: {kind}"
            parts[name] = parts.get(name, 0.0) + self.rates.collective(
                kind, sharded.mesh, axes, nbytes
            )

    def _plans(self, sharded: Sharded) -> Iterator[dict[str, str]]:
        """Every way to split the work: mesh axis -> the dim of the loop that it shards."""
        dims = [dim for dim in self.experiment.what.dims if dim in self.experiment.sizes]
        axes = [axis for axis, size in sharded.mesh if size > 1]
        for chosen in itertools.product((None, *dims), repeat=len(axes)):
            yield {axis: dim for axis, dim in zip(axes, chosen, strict=True) if dim is not None}

    def _by_plan(self, sharded: Sharded, flops: float, plan: dict[str, str]) -> Parts:
        """Operands are moved to where the split needs them, the result to where it is wanted."""
        what = self.experiment.what
        split = {dim: tuple(axis for axis, at in plan.items() if at == dim) for dim in what.dims}
        parts = self._work(
            flops / sharded.parts(tuple(plan)), self.held(sharded), self._matmul(sharded, split)
        )
        for array in what.arrays:
            is_result = array in what.results
            stored = _places(array, self.spec(array, sharded))
            wanted = {axis: dim for axis, dim in plan.items() if dim in array.dims}
            before, after = (wanted, stored) if is_result else (stored, wanted)
            nbytes = self.bytes(array) / sharded.parts(tuple(before))
            if is_result:
                summed = tuple(
                    axis
                    for axis, dim in plan.items()
                    if dim in what.contracted and dim not in array.dims
                )
                self._add(parts, "all-reduce", sharded, summed, nbytes)
            moved = tuple(
                axis for axis, dim in before.items() if axis in after and after[axis] != dim
            )
            self._add(parts, "all-to-all", sharded, moved, nbytes)
            lost = tuple(axis for axis in before if axis not in after)
            self._add(parts, "all-gather", sharded, lost, nbytes * sharded.parts(lost))
        return parts


def is_one_contraction(what: Workload) -> bool:
    """Whether a workload is one contraction, with nothing between operands and result."""
    program = what.program
    return len(what.results) == 1 and not (program.between or program.gathered or program.halo)


def _cut(sharded: Sharded, spec: Spec) -> int:
    return math.prod(sharded.parts(axes) for axes in spec)


def _places(array: Array, spec: Spec) -> dict[str, str]:
    """Mesh axis -> the dim of the array that it shards."""
    return {
        axis: dim for dim, axes in zip(_present(array, spec), spec, strict=True) for axis in axes
    }


def pairs(array: Array, spec: Spec) -> set[tuple[str, str]]:
    """(dim of the array, mesh axis that shards it)."""
    return {(dim, axis) for axis, dim in _places(array, spec).items()}


def _present(array: Array, spec: Spec) -> tuple[str, ...]:
    """Names of the dims that are there: those left out are the first ones."""
    return array.dims[len(array.dims) - len(spec) :]

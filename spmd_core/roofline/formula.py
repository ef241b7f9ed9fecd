"""The part of a computation's closed form that is the same for all its shardings: sizes, bytes, and
which arrays a program sums or gathers.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from spmd_core.experiment import Experiment
from spmd_core.roofline.time_model import TimeModel
from spmd_core.time import Limits, limits_of
from spmd_core.workloads import DTYPE_BYTES, Array, Divides, Workload

Dims = dict[str, int]


@dataclass(frozen=True)
class Formula:
    """An experiment's workload and sizes, on devices of which this is known."""

    experiment: Experiment
    times: TimeModel
    limits: Limits

    @cached_property
    def sizes(self) -> Dims:
        """Size of each dim that is there."""
        return dict(self.experiment.sizes)

    @cached_property
    def flops(self) -> float:
        """Of one execution, over all devices."""
        return self.experiment.what.flops(self.experiment.sizes)

    @cached_property
    def bytes(self) -> Mapping[Array, float]:
        """Bytes of each operand, result and array between them, unsharded."""
        program = self.experiment.what.program
        through = (array for _, arrays in program.passes for array in arrays)
        return {
            array: self._bytes(array)
            for array in (*self.experiment.what.arrays, *program.between, *through)
        }

    def _bytes(self, array: Array) -> float:
        what, dtype = self.experiment.what, self.experiment.dtype
        width = DTYPE_BYTES[what.result_dtype(dtype) if array in what.results else dtype]
        # heads beside kv_heads are those of one key head: both together are all heads
        dims = tuple(dim for dim in array.dims if self.tied.get(dim) not in array.dims)
        return math.prod(Array("", dims).shape(self.sizes)) * width

    @cached_property
    def gathered(self) -> Sequence[tuple[Array, str]]:
        """(array between operands and results, dim along which a program needs it unsharded). Of a
        dim that another is a multiple of (key heads, of query heads) it is the last array before
        the other takes its place.
        """
        what = self.experiment.what
        gathered = [
            (array, dim)
            for array in what.program.between
            for dim in array.unsharded
            if dim not in self.tied or not what.program.passes
        ]
        return gathered + [
            (array, dim)
            for array, after in self.steps
            for dim in array.dims
            if dim not in after.dims and self.tied.get(dim) in after.dims
        ]

    @cached_property
    def tied(self) -> Mapping[str, str]:
        """Dim -> the dim that is a multiple of it."""
        return {
            rule.dim: rule.other
            for rule in self.experiment.what.size_rules
            if isinstance(rule, Divides)
        }

    @cached_property
    def steps(self) -> Sequence[tuple[Array, Array]]:
        """(array, the next that is made of it), along what each operand passes through."""
        what = self.experiment.what
        return [
            pair
            for names, through in what.program.passes
            for name in names
            for pair in itertools.pairwise((what.array(name), *through, what.results[0]))
        ]

    def summed(self, dim: str) -> list[Array]:
        """Arrays that are partial sums where a dim is sharded: what the program makes next of the
        last array that has the dim.
        """
        what = self.experiment.what
        if what.program.passes:
            return list(
                dict.fromkeys(
                    after
                    for array, after in self.steps
                    if dim in array.dims
                    and dim not in after.dims
                    and self.tied.get(dim) not in after.dims
                )
            )
        between = list(what.program.between)
        last = max((place for place, array in enumerate(between) if dim in array.dims), default=-1)
        after = [array for array in between[last + 1 :] if dim not in array.dims]
        return after[:1] or [array for array in what.results if dim not in array.dims]


def formula_of(experiment: Experiment, times: TimeModel, cores: int) -> Formula:
    """The formula by what is known of an experiment's target; where nothing is, one that orders."""
    known = times.for_order(experiment, cores)
    return Formula(experiment, known, limits_of(experiment, cores))


def is_one_contraction(what: Workload) -> bool:
    """Whether a workload is one contraction, with nothing between operands and result."""
    program = what.program
    return len(what.results) == 1 and not (program.between or program.gathered or program.halo)

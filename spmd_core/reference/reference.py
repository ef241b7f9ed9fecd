"""The right answer in NumPy float64, apart from every strategy, and which elements of an output are
wrong by it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from spmd_core.base import by_key
from spmd_core.experiment import Experiment
from spmd_core.facts import StoredFact
from spmd_core.reference.bounds import EPS, Arithmetic, bound
from spmd_core.reference.formulas import FORMULAS
from spmd_core.reference.judging import Judgement, Sequential, judge
from spmd_core.workloads import STRATEGIES

FULL_FLOPS = 2_000_000_000  # above this, only SAMPLED_ROWS rows are computed
FULL_ELEMENTS = (
    2**26
)  # the same, of operands and results together: float64 and bounds of these fill 3 GB
SAMPLED_ROWS = 64
FULL_DIGITS_FROM = (
    2.0**-103
)  # smallest normal float32 over its eps: below it, float32 holds fewer digits, and then none
# platform -> precision -> eps of what float32 inputs are rounded to before they are multiplied
_COARSE = {
    "tpu": {"default": EPS["bfloat16"], "high": 2.0**-15},
    "gpu": dict.fromkeys(("default", "high"), EPS["tfloat32"]),
}


@dataclass(frozen=True, slots=True)
class Reference:
    """Float64 values of a result, and the largest error of each that still is right.

    `rows` are the indices along its dim `axis` that were computed, None where all were; `dtype`
    is the result's; `unresolved` counts the elements that rounding spreads as far as the values are
    apart, whose bound is infinite; `added` returns how far sums in
    a dtype may be off.
    """

    values: np.ndarray
    bounds: np.ndarray
    dtype: str
    rows: np.ndarray | None = None
    axis: int = 0
    unresolved: int = 0
    added: Callable[[], Sequential] | None = None

    def picked(self, output: np.ndarray) -> np.ndarray:
        """The compared part of an output of the full shape, in float64."""
        return (output if self.rows is None else np.take(output, self.rows, self.axis)).astype(
            np.float64
        )

    def judge(self, output: np.ndarray) -> Judgement:
        """Which elements of an output of the full shape are right."""
        return judge(self.values, self.bounds, self.picked(output), self.dtype, self.added)

    def place(self, flat: int) -> tuple[int, ...]:
        """Where in the output of the full shape an element of `values` is."""
        index = [int(step) for step in np.unravel_index(flat, self.values.shape)]
        if self.rows is not None:
            index[self.axis] = int(self.rows[index[self.axis]])
        return tuple(index)


@dataclass(frozen=True, slots=True)
class Error:
    """Largest error, as it is and over the largest reference value, for reading; None where one
    of them is not finite."""

    max_abs: float | None
    max_rel: float | None


def references(
    experiment: Experiment, operands: Mapping[str, np.ndarray], how: Arithmetic | None = None
) -> dict[str, Reference]:
    """Every result of the workload, by name, from operands that were cast to the experiment's
    dtype. `how` None: one CPU device."""
    what = experiment.what
    how = arithmetic(experiment, "cpu") if how is None else how
    rows, axis = sampled_rows(experiment)
    with np.errstate(all="ignore"):  # an overflow is a value here, and compared as one
        values = FORMULAS[what.program.function or what.name](operands, how, rows)
        return {
            array.name: Reference(one.value, bound(one, how), how.dtype, rows, axis)
            for array, one in zip(what.results, values, strict=True)
        }


def sampled_rows(experiment: Experiment) -> tuple[np.ndarray | None, int]:
    """Of a large result the indices that are computed, chosen by the seed, and along which of
    its dims; None: all."""
    what, sizes = experiment.what, experiment.sizes
    dim = next((dim for dim in what.sampled if dim in sizes), None)
    elements = sum(math.prod(array.shape(sizes)) for array in what.arrays)
    if (
        dim is None
        or sizes[dim] <= SAMPLED_ROWS
        or (what.flops(sizes) <= FULL_FLOPS and elements <= FULL_ELEMENTS)
    ):
        return None, 0
    rows = np.sort(
        np.random.default_rng(experiment.seed).choice(sizes[dim], SAMPLED_ROWS, replace=False)
    )
    return rows, what.results[0].present(sizes).index(dim)


def arithmetic(experiment: Experiment, platform: str, strategy: str = "single") -> Arithmetic:
    """How a strategy's program rounds on a platform.

    The compiler adds partial sums in the result's dtype where it chooses how a sum is split;
    programs that do so
    themselves keep them in float32, and float32 sums are float32 whoever splits them.
    """
    what = experiment.what
    dtype = what.result_dtype(experiment.dtype)
    *_, coarse = _coarse(experiment, platform)
    present = what.operands[0].present(experiment.sizes) if what.operands else ()
    how = Arithmetic(
        dtype,
        coarse,
        axes=tuple(at for at, dim in enumerate(present) if dim in what.contracted),
        rate=what.program.constants.get("LEARNING_RATE", 0.0),
        causal=bool(what.program.constants.get("CAUSAL", True)),
    )
    return (
        replace(how, parts=_parts(experiment))
        if STRATEGIES[strategy].collectives == "compiler" and dtype in ("bfloat16", "float16")
        else how
    )


def _parts(experiment: Experiment) -> tuple[tuple[str, int], ...]:
    specs = (
        zip(array.present(experiment.sizes), experiment.spec(array.name), strict=True)
        for array in experiment.what.operands
    )
    shares = by_key(
        (dim, math.prod(experiment.axis_sizes[axis] for axis in axes))
        for dim, axes in chain(*specs, experiment.sharding)
    )
    return tuple((dim, max(parts)) for dim, parts in sorted(shares.items()) if max(parts) > 1)


def multiplier_fact(experiment: Experiment, platform: str) -> StoredFact | None:
    """That a multiplier rounds float32 inputs; None where it does not."""
    kind, precision, eps = _coarse(experiment, platform)
    return StoredFact(kind=f"{kind} multiplier", values={"precision": precision}) if eps else None


def _coarse(experiment: Experiment, platform: str) -> tuple[str, str, float]:
    """tpu or gpu, the precision, and the eps that float32 inputs are rounded to; 0: they are not."""
    what = experiment.what
    own = what.source is not None  # which has no option for it, and may multiply at any precision
    if not (what.uses_precision or own) or what.result_dtype(experiment.dtype) != "float32":
        return platform, "", 0.0
    platform = "gpu" if platform in ("cuda", "rocm") else platform
    precision = "default" if own else str(experiment.option("precision"))
    return platform, precision, _COARSE.get(platform, {}).get(precision, 0.0)


def measure_error(expected: Reference, output: np.ndarray) -> Error:
    """How far an output of the full shape is from the reference; what is infinite or not a
    number alike counts as equal."""
    picked = expected.picked(output)
    finite = np.isfinite(expected.values) & np.isfinite(picked)
    same = (expected.values == picked) | (np.isnan(expected.values) & np.isnan(picked))
    if not (finite | same).all():
        return Error(None, None)
    largest = float(np.abs(expected.values[finite]).max(initial=0.0))
    absolute = float(np.abs(expected.values[finite] - picked[finite]).max(initial=0.0))
    return Error(absolute, absolute / max(largest, FULL_DIGITS_FROM) if largest else absolute)


def uniform(expected: Reference) -> bool:
    """Whether the right values that are judged are all the same within what rounding allows:
    exchanged parts would not show."""
    judged = np.isfinite(expected.values) & np.isfinite(expected.bounds)
    values, bounds = expected.values[judged], expected.bounds[judged]
    return values.size > 1 and float(np.ptp(values)) <= float(bounds.min())


def beyond_fact(name: str, judged: Judgement, expected: Reference) -> StoredFact | None:
    """Counts of elements that are right because they are beyond the dtype's largest number, and of
    those that cannot be judged, by reason; None where there is neither.
    """
    undefined, unresolved = judged.undefined, expected.unresolved + judged.unresolved
    counts = {
        "infinite": judged.infinite,
        "unjudged": judged.unjudged - undefined - unresolved,
        "undefined": undefined,
        "unresolved": unresolved,
    }
    if not any(counts.values()):
        return None
    beside = {"of": judged.compared, "name": name, "dtype": expected.dtype}
    return StoredFact(kind="beyond", values=counts | beside)

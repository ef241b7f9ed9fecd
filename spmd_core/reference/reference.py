"""The right answer in NumPy float64, apart from every strategy, and how far an output is from it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from spmd_core.experiment.experiment import Experiment
from spmd_core.reference.formulas import FORMULAS, f64

FULL_FLOPS = 2_000_000_000  # above this, only SAMPLED_ROWS rows are computed
SAMPLED_ROWS = 64
_SLOPE_OF_ONE = 4.0  # over the greatest slope of a sigmoid, 1/4
_STEEP_FROM = 2.0  # operands of size 1 give 1, and by chance a little more
TOLERANCE_FACTOR = 8.0  # right means an error below 8 sqrt(K) eps: rounding grows as a random walk of K steps
FULL_DIGITS_FROM = 2.0**-103  # smallest normal float32 over its eps: smaller numbers come near to where it holds fewer digits, and then none
EPS = {"float32": 2.0**-23, "bfloat16": 2.0**-7, "float16": 2.0**-10, "tfloat32": 2.0**-10, "int32": 0.0, "int8": 0.0}


@dataclass(frozen=True, slots=True)
class Reference:
    """Float64 values of a result; `rows` are the indices along its dim `axis` that were computed, None where all were."""

    values: np.ndarray
    rows: np.ndarray | None
    axis: int = 0


@dataclass(frozen=True, slots=True)
class Error:
    """Largest error, as it is and over the largest reference value; None where one of them is not finite."""

    max_abs: float | None
    max_rel: float | None
    non_finite: int  # elements that are not finite where the reference is, or the other way round


def references(experiment: Experiment, operands: Mapping[str, np.ndarray]) -> dict[str, Reference]:
    """Every result of the workload, by name, from operands that were cast to the experiment's dtype."""
    what, sizes = experiment.what, experiment.sizes
    dim = next((dim for dim in what.sampled if dim in sizes), None)
    rows, axis = None, 0
    if dim is not None and what.flops(sizes) > FULL_FLOPS and sizes[dim] > SAMPLED_ROWS:
        rows = np.sort(np.random.default_rng(experiment.seed).choice(sizes[dim], SAMPLED_ROWS, replace=False))
        axis = what.results[0].present(sizes).index(dim)
    with np.errstate(all="ignore"):  # an overflow is a value here, and compared as one
        values = FORMULAS[what.program.function or what.name](what, operands, rows)
    return {array.name: Reference(value, rows, axis) for array, value in zip(what.results, values, strict=True)}


def reference(experiment: Experiment, operands: Mapping[str, np.ndarray]) -> Reference:
    """The workload's first result."""
    return references(experiment, operands)[experiment.what.results[0].name]


def measure_error(expected: Reference, output: np.ndarray) -> Error:
    """How far an output of the full shape is from the reference."""
    picked = (output if expected.rows is None else np.take(output, expected.rows, expected.axis)).astype(np.float64)
    finite = np.isfinite(expected.values) & np.isfinite(picked)
    same = (expected.values == picked) | (np.isnan(expected.values) & np.isnan(picked))
    odd = int(np.count_nonzero(~finite & ~same))
    if odd:
        return Error(None, None, odd)
    largest = float(np.abs(expected.values[finite]).max(initial=0.0))
    absolute = float(np.abs(expected.values[finite] - picked[finite]).max(initial=0.0))
    return Error(absolute, absolute / max(largest, FULL_DIGITS_FROM) if largest else absolute, 0)


def uniform(expected: Reference, allowed: float) -> bool:
    """Whether the right values are all the same within the relative error that is allowed: exchanged parts would not show."""
    values = expected.values
    return values.size > 1 and bool(np.isfinite(values).all()) and float(np.ptp(values)) <= allowed * float(np.abs(values).max())


def compute_dtype(experiment: Experiment, platform: str) -> tuple[str, str | None]:
    """The dtype whose rounding bounds the error, and a note where it is coarser than the operands' own."""
    dtype = experiment.what.result_dtype(experiment.dtype)
    if not experiment.what.uses_precision or dtype != "float32" or experiment.option("precision") != "default":
        return dtype, None
    if platform == "tpu":
        return "bfloat16", ("TPU multiplies float32 in bfloat16 passes at default precision: the error is judged by bfloat16 "
                            "(precision=highest avoids it)")
    if platform in ("gpu", "cuda", "rocm"):
        return "tfloat32", "the GPU may multiply float32 as TF32 at default precision: the error is judged by TF32 (precision=highest avoids it)"
    return dtype, None


def tolerance(experiment: Experiment, dtype: str) -> float:
    """Largest relative error that still counts as right: 8 sqrt(K) eps, K the terms of the longest sum; 0 for integers.

    Where the workload keeps its sums in float32, K terms round as float32, and only its `stages` round as a narrower dtype.
    """
    what = experiment.what
    terms = math.sqrt(what.term_count(experiment.sizes))
    if what.stages is None or dtype == "float32":
        return TOLERANCE_FACTOR * terms * EPS[dtype]
    return TOLERANCE_FACTOR * (math.sqrt(what.stages) * EPS[dtype] + terms * EPS["float32"])


def steepness(experiment: Experiment, operands: Mapping[str, np.ndarray], expected: Reference) -> float:
    """How much more a layer's sigmoid enlarges the rounding of its sums than `tolerance` allows for; 1 where it does not, and elsewhere.

    An error in z = x @ weights + bias becomes one of z times the slope y (1 - y), and z rounds relative to its terms: with operands of
    size 1 they add up to sqrt(K), which the tolerance covers; with larger ones to more, and a small z is the difference of large terms.
    """
    if experiment.workload != "layer":
        return 1.0
    x, weights, bias = (operands[name] for name in ("x", "weights", "bias"))
    if expected.rows is not None and x.ndim == 1:
        weights, bias = weights[:, expected.rows], bias[expected.rows]
    elif expected.rows is not None:
        x = x[expected.rows]
    x, weights, bias = f64(x), f64(weights), f64(bias)
    y = expected.values
    rounded = y * (1 - y) * np.sqrt(x**2 @ weights**2 + bias**2)
    largest = max(float(np.abs(y).max(initial=0.0)), FULL_DIGITS_FROM)
    found = _SLOPE_OF_ONE * float(rounded.max(initial=0.0)) / largest / math.sqrt(experiment.what.term_count(experiment.sizes))
    return found if found > _STEEP_FROM else 1.0

"""The reference of every result: a NumPy formula with bounds on the rounding of each element."""

from spmd_core.reference.bounds import (
    EPS,
    LARGEST,
    ROUNDING,
    TINY,
    Arithmetic,
    Bounded,
    bound,
    resolved,
)
from spmd_core.reference.formulas import has_formula
from spmd_core.reference.judging import Judgement, Sequential, sequential
from spmd_core.reference.reference import (
    FULL_FLOPS,
    Error,
    Reference,
    arithmetic,
    beyond_fact,
    measure_error,
    multiplier_fact,
    references,
    sampled_rows,
    uniform,
)

__all__ = [
    "EPS",
    "FULL_FLOPS",
    "LARGEST",
    "ROUNDING",
    "TINY",
    "Arithmetic",
    "Bounded",
    "Error",
    "Judgement",
    "Reference",
    "Sequential",
    "arithmetic",
    "beyond_fact",
    "bound",
    "has_formula",
    "measure_error",
    "multiplier_fact",
    "references",
    "resolved",
    "sampled_rows",
    "sequential",
    "uniform",
]

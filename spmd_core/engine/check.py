"""Judges every trial's result by the reference."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from spmd_core.engine.trial import Trial
from spmd_core.experiment import Experiment
from spmd_core.reference import Reference, compute_dtype, measure_error, reference, tolerance


def check(trials: Sequence[Trial], experiment: Experiment, operands: dict[str, Any], platform: str) -> None:
    """Fill in error, tolerance and `correct` of every trial that has a result; the reference is computed once."""
    done = [trial for trial in trials if trial.to_check is not None and trial.failure is None]
    if not done:
        return
    expected, limit, notes = _expected(experiment, operands, platform)
    for trial in done:
        result, trial.to_check = trial.to_check, None
        assert result is not None
        trial.error = measure_error(expected, result)
        trial.tolerance = limit
        trial.correct = trial.error.max_rel is not None and trial.error.max_rel <= limit
        trial.notes += notes
        if trial.error.non_finite:
            trial.notes.append(f"{trial.error.non_finite} elements are not finite where the reference is, or the other way round")
        if not trial.correct:
            trial.notes.append("wrong values: not ranked")


def _expected(experiment: Experiment, operands: dict[str, Any], platform: str) -> tuple[Reference, float, list[str]]:
    if experiment.workload == "array":  # a copy is right when it is equal
        return Reference(np.asarray(operands["array"], np.float64), None), 0.0, []
    expected = reference(experiment, operands)
    dtype, note = compute_dtype(experiment, platform)
    notes = [note] if note else []
    if expected.rows is not None:
        notes.append(f"compared with the reference on {len(expected.rows)} rows chosen by the seed")
    return expected, tolerance(experiment, dtype), notes

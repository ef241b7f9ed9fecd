"""Judges every trial's results by the reference."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from spmd_core.engine.measured.own_reference import OWN_NOTE, own_references
from spmd_core.engine.measured.trial import Trial, failure_of
from spmd_core.experiment.experiment import Experiment
from spmd_core.reference.formulas import has_formula
from spmd_core.reference.reference import Error, Reference, compute_dtype, measure_error, references, steepness, tolerance, uniform

LARGE_BYTES = 64 * 2**20  # results above this are judged at once rather than kept until all strategies have run


@dataclass
class Checker:
    """Compares results with the reference, which is computed once, when first needed; `operands` are filled by then."""

    experiment: Experiment
    operands: dict[str, Any]
    platform: str

    def check(self, trial: Trial) -> None:
        """Fill in error, tolerance and `correct` of a trial whose results wait for it."""
        results, trial.to_check = trial.to_check, {}
        if not results or trial.failure is not None:
            return
        expected, limit, notes = self._expected
        trial.notes += notes
        if not expected:
            return
        trial.error = _worst([measure_error(expected[name], result) for name, result in results.items()])
        trial.tolerance = limit
        trial.correct = trial.error.max_rel is not None and trial.error.max_rel <= limit
        if trial.error.non_finite:
            trial.notes.append(f"{trial.error.non_finite} elements are not finite where the reference is, or the other way round")
        if not trial.correct:
            trial.notes.append("wrong values: not ranked")

    def check_if_large(self, trial: Trial) -> None:
        """Judge results now that would fill the host's memory if they were kept."""
        if sum(result.nbytes for result in trial.to_check.values()) > LARGE_BYTES:
            self.check(trial)

    @cached_property
    def _expected(self) -> tuple[dict[str, Reference], float, list[str]]:
        experiment = self.experiment
        if experiment.what.is_bare_array:  # a copy is right when it is equal
            return {"array": Reference(np.asarray(self.operands["array"], np.float64), None)}, 0.0, []
        dtype, note = compute_dtype(experiment, self.platform)
        notes = [note] if note else []
        if has_formula(experiment.what):
            expected = references(experiment, self.operands)
        else:
            try:
                expected = own_references(experiment, self.operands)
                notes.append(OWN_NOTE)
            except Exception as error:  # whatever the user's function raises in float64 is told; the timings stand
                failure = failure_of(error)
                return {}, 0.0, [f"not compared: in float64 on one device the function itself fails with {failure.kind}: {failure.message}"]
        rows = next((one.rows for one in expected.values() if one.rows is not None), None)
        if rows is not None:
            notes.append(f"compared with the reference on {len(rows)} rows chosen by the seed")
        steeper = steepness(experiment, self.operands, next(iter(expected.values())))
        if steeper > 1:
            notes.append(f"these operands make the sigmoid enlarge rounding {steeper:.3g} times: the error is judged by that")
        allowed = steeper * tolerance(experiment, dtype)
        if all(uniform(one, allowed) for one in expected.values()):
            notes.append("every right value is the same within rounding: parts that were exchanged would not show (data `normal` shows them)")
        return expected, allowed, notes


def _worst(errors: list[Error]) -> Error:
    """The largest of several results' errors."""
    non_finite = sum(error.non_finite for error in errors)
    if non_finite:
        return Error(None, None, non_finite)
    return Error(max(error.max_abs or 0.0 for error in errors), max(error.max_rel or 0.0 for error in errors), 0)

"""Turns a finished trial into a strategy's result."""

from collections.abc import Mapping
from typing import Any

from spmd_core.engine.timing import Timed
from spmd_core.engine.trial import Trial
from spmd_core.experiment import Experiment
from spmd_core.results import (
    Phases,
    Status,
    StrategyResult,
    Summary,
    Unsharded,
    median_s,
    summarize,
)


def strategy_result(
    trial: Trial, experiment: Experiment, floor_s: float | None, was_cancelled: bool
) -> StrategyResult:
    """What was measured of one strategy; None wherever nothing was."""
    program, error = trial.program, trial.error
    every = program.samples_s if program else ()
    samples = every[: experiment.timing.samples]
    summary = summarize(samples) if samples else None
    return StrategyResult(
        status=_status(trial, experiment, was_cancelled),
        error=trial.failure,
        phases_s=Phases(**trial.phases_s),
        samples_s=samples,
        hosts=trial.hosts,
        remeasured_s=every[len(samples) :],
        turns_s=tuple(program.rounds) if program else (),
        calls_per_sample=program.calls_per_turn * program.turns if program and samples else None,
        **_summed(summary),
        from_unsharded=_unsharded(trial.from_unsharded),
        facts=tuple(trial.facts),
        floor_s=floor_s,
        warnings=trial.warnings,
        collectives=trial.collectives,
        operations=trial.operations,
        memory_bytes=trial.memory_bytes,
        predicted_s=trial.prediction.predicted_s if trial.prediction else None,
        prediction=trial.prediction,
        **dict(trial.judged),
        trace=trial.trace,
        operands=trial.operands,
        outputs=trial.outputs,
        printed=trial.printed,
        bytes_per_s=_bytes_per_s(experiment, summary),
        series={name: tuple(values) for name, values in trial.series.items()},
        max_abs_error=error.max_abs if error else None,
        max_rel_error=error.max_rel if error else None,
        correct=trial.correct,
        wrong=trial.wrong,
        imprecise=trial.imprecise,
    )


def _summed(summary: Summary | None) -> Mapping[str, Any]:
    names = ("median_s", "iqr_s", "ci95_s", "outliers")
    return {name: getattr(summary, name) for name in names} if summary else {}


def _bytes_per_s(experiment: Experiment, summary: Summary | None) -> float | None:
    """Of a transfer: bytes of the full array, over the median. What is read and written counts
    once.
    """
    if summary is None or not experiment.what.moves:
        return None
    return experiment.what.operand_bytes(experiment.sizes, experiment.dtype) / summary.median_s


def _status(trial: Trial, experiment: Experiment, was_cancelled: bool) -> Status:
    if trial.failure:
        return "error"
    timed = trial.program is not None and bool(trial.program.rounds)
    done = timed or (bool(trial.outputs or trial.printed) and experiment.what.is_small_program)
    return "ok" if done or not was_cancelled else "cancelled"


def _unsharded(timed: Timed | None) -> Unsharded | None:
    if timed is None or not timed.rounds:
        return None
    return Unsharded(samples_s=timed.samples_s, median_s=median_s(timed.rounds))

"""One strategy of a run while it is under way: what is known of it so far, and how it fails."""

import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from spmd_core.base import Inexpressible, WrongResult
from spmd_core.engine.devices import JaxDevice
from spmd_core.engine.members import Shards
from spmd_core.engine.timing import Timed
from spmd_core.experiment import Experiment, Row
from spmd_core.facts import Collective, Judged, Prediction, Shardings, StoredFact, Trace
from spmd_core.program import with_specs
from spmd_core.reference import Error
from spmd_core.results import (
    INEXPRESSIBLE,
    OUT_OF_MEMORY,
    ArrayReport,
    Failure,
    HostTime,
    Imprecise,
    MemoryBytes,
    Operation,
    Phases,
    Status,
    StrategyResult,
    Summary,
    Unsharded,
    Wrong,
    median_s,
    summarize,
)

MAX_MESSAGE_CHARACTERS = 2000

NOT_JUDGED = Judged()


@dataclass(slots=True)
class Trial:
    """A strategy under way; each step fills in what it learns."""

    strategy: str
    # where several variants are measured: the row that it is of, and its own experiment
    row: Row | None = None
    phases_s: dict[str, float] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    facts: list[StoredFact] = field(default_factory=list)
    program: Timed | None = None
    compiled: Any = None  # what `program` calls, where the call is one compiled program
    from_unsharded: Timed | None = None
    collectives: tuple[Collective, ...] | None = None
    operations: tuple[Operation, ...] | None = None  # besides collectives
    fingerprint: str | None = None  # of the compiled program, with the number of its devices
    memory_bytes: MemoryBytes | None = None
    # on attached TPUs and GPUs: the cost model's estimate of the program that is timed
    prediction: Prediction | None = None
    judged: Judged = NOT_JUDGED
    lowered: Any = None  # of which `compiled` was compiled
    trace: Trace | None = None
    operands: dict[str, ArrayReport] = field(default_factory=dict)
    outputs: dict[str, ArrayReport] = field(default_factory=dict)
    printed: dict[str, str] = field(default_factory=dict)
    # the results on the host, until they are compared with the reference
    to_check: dict[str, np.ndarray | Shards] = field(default_factory=dict)
    # of a training run: a value for each step
    series: dict[str, list[float]] = field(default_factory=dict)
    error: Error | None = None
    wrong: Wrong | None = None
    imprecise: Imprecise | None = None
    correct: bool | None = None
    failure: Failure | None = None
    has_met: bool = False  # the other members, ahead of its first run
    hosts: tuple[HostTime, ...] = ()  # of several

    @property
    def key(self) -> str:
        """Its name in the result."""
        return self.row.key if self.row else self.strategy

    @property
    def timed(self) -> list[Timed]:
        """What takes part in the rounds."""
        return [
            timed
            for timed in (self.program, self.from_unsharded)
            if timed is not None and self.failure is None
        ]

    def explain(self, steps: Shardings) -> None:
        """Add the specs of the program's steps to the reasons of its collectives."""
        if self.collectives:
            self.collectives = with_specs(self.collectives, steps)
        if self.prediction is not None and self.prediction.collectives:
            update = {"collectives": self.collectives}
            self.prediction = self.prediction.model_copy(update=update)

    def fail(self, error: BaseException) -> None:
        """Record why this strategy stops here, and let go of what it holds on the devices."""
        self.stop(failure_of(error))
        if not isinstance(error, Inexpressible | WrongResult):
            traceback.print_exception(error, limit=-8, file=sys.stderr)

    def stop(self, failure: Failure) -> None:
        """Record a failure, and let go of what this strategy holds on the devices."""
        self.failure = failure
        self.program = self.from_unsharded = self.compiled = self.lowered = None


def failure_of(error: BaseException) -> Failure:
    """The kind of an error and its words, XLA's own where it is XLA's."""
    words = str(error).strip() or type(error).__name__
    if len(words) > MAX_MESSAGE_CHARACTERS:
        words = words[: MAX_MESSAGE_CHARACTERS - 1] + "…"
    return Failure(kind=_kind(error, words), message=words)


def _kind(error: BaseException, words: str) -> str:
    if isinstance(error, Inexpressible):
        return INEXPRESSIBLE
    if isinstance(error, WrongResult):
        return "wrong_result"
    if isinstance(error, MemoryError) or (
        isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in words
    ):
        return OUT_OF_MEMORY
    return type(error).__name__


def device_order(names: Mapping[str, Any]) -> tuple[jax.sharding.Mesh | None, list[JaxDevice]]:
    """The mesh of an executed program text, None where it has none; and the devices in the order of
    their positions.
    """
    mesh = names.get("mesh")
    if mesh is None:
        return None, [names.get("device") or jax.devices()[0]]
    return mesh, list(mesh.devices.flat)


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
        **{n: getattr(summary, n) for n in ("median_s", "iqr_s", "ci95_s", "outliers") if summary},
        from_unsharded=_unsharded(trial.from_unsharded),
        facts=tuple(trial.facts),
        floor_s=floor_s,
        warnings=trial.warnings,
        collectives=trial.collectives,
        operations=trial.operations,
        memory_bytes=trial.memory_bytes,
        predicted_s=trial.prediction.predicted_s if trial.prediction else None,
        prediction=trial.prediction,
        **dict(trial.judged.against),
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

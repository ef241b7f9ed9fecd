"""A training run: every strategy takes its steps, each on what the step before returned, and the
loss streams while they run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import monotonic, perf_counter
from typing import Any

import jax
import numpy as np

from spmd_core.engine import timing
from spmd_core.engine.members import alike, nothing
from spmd_core.engine.trial import Trial
from spmd_core.experiment import Experiment
from spmd_core.facts import STEP_TIME, labelled, thinned
from spmd_core.runs import Event, Phase, Progress

PROGRESS_INTERVAL_S = 0.1


@dataclass
class TrainingRun:
    """`steps` steps of every strategy, in turn: what one step of all takes is fresh for all, and a
    cancelled run has as much of each.
    """

    experiment: Experiment
    trials: Sequence[Trial]
    emit: Callable[[Event], None]
    cancelled: Callable[[], bool]
    stopped: bool = False
    _reported_at: float = float("-inf")
    _arguments: dict[str, list[Any]] = field(default_factory=dict)

    def run(self) -> None:
        """Take the steps. What was measured before is sent again with each progress, so that a
        screen keeps it.
        """
        steps = self.experiment.option("steps")
        present = [
            trial for trial in self.trials if trial.program is not None and trial.failure is None
        ]
        self.emit(Phase(phase="train"))
        with timing.quiet():
            for done in range(steps):
                if self.cancelled():
                    self.stopped = True
                    break
                for trial in present:
                    self._step(trial)
                if monotonic() - self._reported_at >= PROGRESS_INTERVAL_S:
                    self._tell(done + 1, steps)
        self._tell(
            min(len(trial.series.get(STEP_TIME, ())) for trial in present) if present else 0, steps
        )
        self._arguments.clear()

    def _step(self, trial: Trial) -> None:
        if trial.failure is not None or trial.program is None or trial.program.call is nothing:
            return
        what, curve = self.experiment.what, self.experiment.what.training.curve or ""
        arguments = self._arguments.setdefault(trial.key, list(trial.program.arguments))
        try:
            start = perf_counter()
            with alike():
                output = timing.block(trial.program.call(*arguments))
            seconds = perf_counter() - start
            named = {array.name: value for array, value in zip(what.results, output, strict=True)}
            for result, operand in what.training.carried:
                place = next(
                    place for place, array in enumerate(what.operands) if array.name == operand
                )
                arguments[place] = placed_like(named[result], arguments[place])
            trial.series.setdefault(curve, []).append(float(np.asarray(named[curve])))
            trial.series.setdefault(STEP_TIME, []).append(seconds)
        except (
            Exception
        ) as error:  # whatever a step raises is the strategy's result; the others go on
            trial.fail(error)

    def _tell(self, done: int, steps: int) -> None:
        self._reported_at = monotonic()
        series = {
            labelled(name, trial.key): thinned(values)
            for trial in self.trials
            for name, values in trial.series.items()
        }
        medians = {
            trial.key: float(np.median(trial.program.samples_s))
            for trial in self.trials
            if trial.program and trial.program.rounds
        }
        self.emit(Progress(done=done, of=steps, medians_s=medians, series=series))


def placed_like(value: jax.Array, like: jax.Array) -> jax.Array:
    """A result of one step as the next step takes it: moved only where its sharding differs."""
    if value.sharding.is_equivalent_to(like.sharding, value.ndim):
        return value
    return jax.device_put(value, like.sharding)

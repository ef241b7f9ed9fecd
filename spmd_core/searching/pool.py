"""Compiles on this machine: a search's candidates as runs of one batch, several at a time."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from spmd_core.experiment.experiment import Experiment
from spmd_core.lab import Lab
from spmd_core.results.result import Result
from spmd_core.store.limits import Asker

_WAIT_S = 0.1
_CANCEL_S = 15.0  # to wait for cancelled runs to end


class Pool:
    """The runs of one search that are queued or at work, as `Cluster` has its tasks: the lanes that
    compile take them side by side, and rest while something is timed.
    """

    keeps = True  # results are stored here

    def __init__(self, lab: Lab, asker: Asker | None, batch: str):
        self._lab, self._batch, self._runs = lab, batch, dict[str, Any]()
        self._asker = replace(asker, batch=batch) if asker else None

    def close(self) -> None:
        """Cancel what is not over."""
        for run in self._runs:
            self._lab.cancel(run)
        deadline = time.monotonic() + _CANCEL_S
        for run in self._runs:
            self._lab.wait(run, max(0.0, deadline - time.monotonic()))
        self._runs.clear()

    @property
    def workers(self) -> int:
        """How many compile at the same time."""
        return self._lab.compilers

    @property
    def has_room(self) -> bool:
        """Whether another run would be begun soon: one waits, so that no compiler does."""
        return len(self._runs) <= self.workers

    @property
    def is_idle(self) -> bool:
        """Whether no run is left."""
        return not self._runs

    def submit(self, experiment: Experiment, timeout_s: float, what: Any) -> None:
        """Have it compiled; `what` comes back with the result. RequestError where it cannot run."""
        run = self._lab.submit(experiment, self._asker, batch=self._batch)
        self._runs[run] = what

    def finished(self) -> Iterator[tuple[Any, Result | str]]:
        """Runs that ended since, after a moment of waiting: a result, or why there is none."""
        time.sleep(_WAIT_S)
        for run in list(self._runs):
            status = self._lab.status(run)
            if status.is_over:
                why = status.error.message if status.error else f"the run {status.state}"
                yield self._runs.pop(run), self._lab.result(run) or why

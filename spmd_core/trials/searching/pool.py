"""Compiles of one search, or of a tryout: runs of one batch, several at a time."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from spmd_core.base import WorkerError
from spmd_core.experiment import Experiment
from spmd_core.lab import Asker, Lab
from spmd_core.results import Result

FEW = 8  # at work, for each of which so many one run waits, so that whatever is free has a next one
_WAIT_S = 0.1
_CANCEL_S = 15.0  # to wait for cancelled runs to end


class Pool:
    """The runs of one batch that are queued or at work: the lanes that compile take them side by
    side, here or on a cluster.
    """

    def __init__(self, lab: Lab, asker: Asker | None, batch: str):
        self._lab, self._batch, self._runs = lab, batch, dict[str, Any]()
        self._asker = replace(asker, batch=batch) if asker else None
        self._waiting = 0  # of them, when they were looked at last
        self._ending: list[str] = []  # cancelled

    def close(self) -> None:
        """Cancel what is not over, and wait for that."""
        self.cancel()
        deadline = time.monotonic() + _CANCEL_S
        while self._ending:
            self._lab.wait(self._ending.pop(), max(0.0, deadline - time.monotonic()))

    def cancel(self, unwanted: Callable[[Any], bool] = lambda what: True) -> None:
        """Cancel what is unwanted and not over: what waits first, so that none of it moves up
        meanwhile.
        """
        for run, what in reversed(list(self._runs.items())):
            if unwanted(what):
                self._lab.cancel(run)
                self._ending.append(run)
                del self._runs[run]
        self._waiting = min(self._waiting, len(self._runs))

    @property
    def at_work(self) -> tuple[Any, ...]:
        """What the runs that are not over are for."""
        return tuple(self._runs.values())

    @property
    def has_room(self) -> bool:
        """Whether another run would be begun soon."""
        return self._waiting <= (len(self._runs) - self._waiting) // FEW

    @property
    def is_idle(self) -> bool:
        """Whether no run is left."""
        return not self._runs

    def submit(self, experiment: Experiment, what: Any) -> None:
        """Have it compiled; `what` comes back with the result. RequestError where it cannot run."""
        run = self._lab.submit(experiment, self._asker, batch=self._batch)
        self._runs[run] = what
        self._waiting += 1

    def finished(self) -> Iterator[tuple[Any, Result | str]]:
        """Runs that ended since, after a moment of waiting: a result, or why there is none.
        WorkerError where the cluster that is to compile them does not.
        """
        time.sleep(_WAIT_S)
        active = {status.run: status for status in self._lab.active() if status.run in self._runs}
        self._waiting = sum(status.state == "queued" for status in active.values())
        for run in [run for run in self._runs if run not in active]:
            status = self._lab.status(run)
            if not status.is_over:
                continue
            why = status.error.message if status.error else f"the run {status.state}"
            yield self._runs.pop(run), self._lab.facts(run) or why
        if held_up := next((each.held_up for each in active.values() if each.held_up), None):
            raise WorkerError(held_up)

"""Runs that are submitted, followed and ended together; each goes through the Lab's one gate."""

import math
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from spmd_core.base import WorkerError
from spmd_core.experiment import Experiment
from spmd_core.lab.lab import Lab
from spmd_core.lab.store.limits import COMMAND_LINE, Asker
from spmd_core.results import LOST, Result
from spmd_core.runs import RunStatus

FEW = 8  # at work, for each of which so many one run waits, so that whatever is free has a next one
LOOK_S = 0.2
_WAIT_S = 0.1
_CANCEL_S = 15.0  # to wait for cancelled runs to end: the next ones would wait for that anyway


class Batch:
    """Runs of one name, which count as one: lanes take them side by side, here or on a cluster.

    What crashes, fails or is cancelled costs its own run alone. `stop`: whether no
    more is wanted; `deadline`: when its time is over (monotonic seconds).
    """

    def __init__(
        self,
        lab: Lab,
        asker: Asker = COMMAND_LINE,
        name: str | None = None,
        stop: Callable[[], bool] = lambda: False,
        deadline: float = math.inf,
    ):
        self._lab, self._stop, self.deadline = lab, stop, deadline
        self._asker = replace(asker, batch=name or asker.batch or f"batch {secrets.token_hex(8)}")
        self._runs = dict[str, object]()
        self._waiting = 0  # of them, when they were looked at last
        self._ending: list[str] = []  # cancelled
        self.lost: list[str] = []  # why runs were lost by the cluster that was to compile them
        self.left_out = ""  # workers of the cluster that get no run, and why

    @property
    def lab(self) -> Lab:
        """Whose runs they are."""
        return self._lab

    @property
    def is_over(self) -> bool:
        """Whether no more is wanted of it, or its time is over."""
        return self._stop() or time.monotonic() >= self.deadline

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, at least 1."""
        return max(1.0, min(self.deadline - time.monotonic(), 3600.0))

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

    def known(self, experiment: Experiment) -> Result | None:
        """The stored facts of an equal experiment."""
        run = self._lab.latest(experiment)
        return self._lab.facts(run) if run else None

    def submit(self, experiment: Experiment, what: Any = None, compile_only: bool = False) -> str:
        """Queue it; the run's id. `what` comes back with the outcome. RequestError where it cannot
        run.
        """
        run = self._lab.submit(experiment, self._asker, compile_only)
        self._runs[run] = what
        self._waiting += 1
        return run

    def finished(self) -> Iterator[tuple[Any, Result | str]]:
        """Runs that ended since, after a short wait: the result, or why there is none.
        WorkerError where the cluster that is to compile them does not.
        """
        time.sleep(_WAIT_S)
        active = {status.run: status for status in self._lab.active() if status.run in self._runs}
        self._waiting = sum(status.state == "queued" for status in active.values())
        self.left_out = max((each.left_out for each in active.values()), key=len, default="") or (
            self.left_out
        )
        for run in [run for run in self._runs if run not in active]:
            status = self._lab.status(run)
            # a run may end between two looks, with what was left out on its way
            self.left_out = status.left_out or self.left_out
            if status.is_over:
                if status.error and status.error.kind == LOST:
                    self.lost.append(status.error.message)
                yield self._runs.pop(run), self._lab.facts(run) or why(status)
        if held_up := next((each.held_up for each in active.values() if each.held_up), None):
            raise WorkerError(held_up)

    def run(
        self,
        experiment: Experiment,
        compile_only: bool = False,
        partial: bool = False,
        look: Callable[[RunStatus], object] = lambda status: None,
    ) -> tuple[RunStatus | None, Result | None]:
        """Queue it and wait: how it ended, and its result; (None, None) where the batch was over
        first, or with `partial` (None, what was measured until then). `look` is called as it goes
        on. RequestError where it cannot run.
        """
        run = self.submit(experiment, compile_only=compile_only)
        status = self._lab.wait(run, LOOK_S)
        while not (status.is_over or self.is_over):
            look(status)
            status = self._lab.wait(run, LOOK_S)
        if status.is_over:
            self._forget([run])
            return status, self._lab.facts(run)
        self._end([run])
        self._await_ends()
        return None, self._lab.facts(run) if partial else None

    def cancel(self, unwanted: Callable[[Any], bool] = lambda what: True) -> None:
        """Cancel what is unwanted and not over."""
        self._end([run for run, what in self._runs.items() if unwanted(what)])

    def close(self) -> list[tuple[Any, Result]]:
        """Cancel what is not over, and wait for that; what ended with a complete result all the same."""
        left = dict(self._runs)
        self.cancel()
        self._await_ends()
        done = [run for run in left if self._lab.status(run).state == "succeeded"]
        return [(left[run], result) for run in done if (result := self._lab.facts(run))]

    def _end(self, runs: list[str]) -> None:
        if runs:
            self._lab.cancel(*runs)
        self._ending += runs
        self._forget(runs)

    def _forget(self, runs: list[str]) -> None:
        for run in runs:
            del self._runs[run]
        self._waiting = min(self._waiting, len(self._runs))

    def _await_ends(self) -> None:
        deadline = time.monotonic() + _CANCEL_S
        while self._ending:
            self._lab.wait(self._ending.pop(), max(0.0, deadline - time.monotonic()))


def why(status: RunStatus) -> str:
    """Why a run that is over has no result."""
    return status.error.message if status.error else f"the run {status.state}"

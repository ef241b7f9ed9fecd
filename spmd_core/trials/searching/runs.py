"""Asks the Lab for the runs of a search, and waits for them no longer than the search may take."""

import time
from collections.abc import Callable
from dataclasses import replace

from spmd_core.experiment import Experiment
from spmd_core.lab import Asker, Lab
from spmd_core.results import SPREAD_WARNING, Result, RunStatus

LOOK_S = 0.2
_CANCEL_S = 15.0  # to wait for a cancelled run to end: the next one would wait for it anyway


class Runs:
    """Runs of one search: `stop` says whether it was cancelled, `deadline` when its time is over
    (monotonic seconds), `batch` what they are asked for in.
    """

    def __init__(
        self,
        lab: Lab,
        asker: Asker | None,
        stop: Callable[[], bool],
        deadline: float,
        batch: str | None = None,
    ):
        self._lab, self._stop, self.deadline, self._batch = lab, stop, deadline, batch
        self._asker = replace(asker, batch=batch or asker.batch) if asker else None
        self.current: str | None = None
        self.disturbed = 0  # measured again, since something else ran on the machine

    @property
    def is_over(self) -> bool:
        """Whether the search has to end."""
        return self._stop() or time.monotonic() >= self.deadline

    @property
    def left_s(self) -> float:
        """Seconds until the deadline, at least 1."""
        return max(1.0, min(self.deadline - time.monotonic(), 3600.0))

    def known(self, experiment: Experiment) -> Result | None:
        """A stored result of an equal experiment."""
        run = self._lab.latest(experiment)
        return self._lab.facts(run) if run else None

    def run(
        self, experiment: Experiment, compile_only: bool = False, partial: bool = False
    ) -> tuple[RunStatus | None, Result | None]:
        """Queue it and wait: how it ended, and its result; (None, None) where the search ended
        first, or with `partial` (None, what was measured until then). RequestError where it cannot
        run.
        """
        run = self.current = self._lab.submit(experiment, self._asker, compile_only, self._batch)
        try:
            while True:
                status = self._lab.wait(run, LOOK_S)
                if status.is_over:
                    return status, self._lab.facts(run)
                if self.is_over:
                    self._lab.cancel(run)
                    self._lab.wait(run, _CANCEL_S)
                    return None, self._lab.facts(run) if partial else None
        finally:
            self.current = None

    def steady(self, experiment: Experiment) -> tuple[RunStatus | None, Result | None]:
        """The same, once more where the times spread as on a busy machine: the steadier of both."""
        first = self.run(experiment)
        if first[1] is None or spread(first[1]) <= SPREAD_WARNING or self.is_over:
            return first
        self.disturbed += 1
        second = self.run(experiment)
        steadier = second[1] is not None and spread(second[1]) < spread(first[1])
        return second if steadier else first


def spread(result: Result) -> float:
    """The middle half of the samples over their median, of the strategy where it is largest."""
    return max(
        (
            found.iqr_s / found.median_s
            for found in result.strategies.values()
            if found.iqr_s is not None and found.median_s
        ),
        default=0.0,
    )

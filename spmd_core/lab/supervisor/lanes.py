"""The lanes of the queue: runs that are timed, and runs that are only compiled."""

import time
from typing import Any

from spmd_core.lab.supervisor.active import ActiveRun
from spmd_core.lab.supervisor.lane import Lane
from spmd_core.lab.supervisor.process import Worker
from spmd_core.runs import COMPILING, TIMING


class TimingLane(Lane):
    """Runs on devices that are here. While one is timed nothing compiles beside it."""

    name = TIMING

    def _before_sending(self, run: ActiveRun) -> None:
        self._gate.start_timing(run.status.run)

    def _stop_compiling_or_timing(self) -> None:
        self._gate.end_timing()


class CompilingLane(Lane):
    """Runs for devices that are not here: their programs are compiled and never timed."""

    name = COMPILING

    def __init__(self, *shared: Any):
        super().__init__(*shared)
        self.which = "not for the cluster" if self._settings.dask else "any"

    def _may_begin(self) -> bool:
        return self._gate.may_compile(self._thread.name)

    def _give_way(self, run: ActiveRun, worker: Worker) -> bool:
        timed, now = self._gate.timed, time.monotonic()
        if timed == run.status.paused_for or (timed and not worker.may_be_paused):
            return False
        if timed:
            worker.pause()
            self._gate.stop_compiling(self._thread.name)
        elif self._gate.may_compile(self._thread.name):
            worker.resume()
        else:
            return False  # another run is timed by now: the next round reads which
        run.pause(timed, now)
        return True

    def _stop_compiling_or_timing(self) -> None:
        self._gate.stop_compiling(self._thread.name)


class HelpingLane(CompilingLane):
    """One more compiler for batches: a search's candidates, the points of a sweep. A single run
    waits for the first lane, as if there were no other.
    """

    def __init__(self, number: int, *shared: Any):
        super().__init__(*shared)
        self.which = "of batches"
        self._thread.name = f"spmd-lab-{self.name}-{number}"

    def _answer_probes(self) -> None:
        """The first lane of this kind does."""

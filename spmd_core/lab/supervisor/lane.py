"""The two lanes of the queue: runs that are timed, and runs that are only compiled. Each works its
runs one at a time in one permanent thread.
"""

import threading
import time
from typing import Any

from spmd_core.base import (
    LabError,
    Settings,
    StorageError,
    UnreadableRun,
    WorkerError,
    descriptors,
)
from spmd_core.lab.store.queue import Which
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.active import ActiveRun
from spmd_core.lab.supervisor.compile_gate import CompileGate
from spmd_core.lab.supervisor.process import Worker, ending_text
from spmd_core.lab.supervisor.runner import Runner
from spmd_core.lab.supervisor.unsaved import UnsavedRuns
from spmd_core.results import Failure
from spmd_core.runs import COMPILING, TIMING, Failed, Ready, RunStatus, Started, lane_of_target

WORKER_DESCRIPTORS = 10  # which this process takes to start a worker, and to follow it


class Lane(Runner):
    """One part of the queue, from its head to its worker."""

    name: str
    which: Which = "any"  # of the runs of its part

    def __init__(
        self,
        store: Store,
        settings: Settings,
        unsaved: UnsavedRuns,
        changed: threading.Condition,
        gate: CompileGate,
    ):
        super().__init__(store, settings, unsaved, changed)
        self._gate, self._guard = gate, threading.Lock()
        self._is_open = self._is_busy = self._must_let_go = False
        # a worker dies with the thread that started it: this one lives as long as the lane
        self._thread = threading.Thread(
            target=self._work, name=f"spmd-lab-{self.name}", daemon=True
        )

    @property
    def is_alive(self) -> bool:
        """Whether the thread still works."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread; runs are taken from `open` on."""
        self._thread.start()

    def wake(self) -> None:
        """Have the thread look at the queue and the requests at once."""
        self._wakeup.set()

    def open(self) -> None:
        """This process works the queue from now on."""
        with self._guard:
            was_open, self._is_open = self._is_open, True
        if not was_open:
            self.wake()

    def shut(self) -> bool:
        """Take nothing more from the queue; whether no run is in progress."""
        with self._guard:
            self._is_open = False
            return not self._is_busy

    def let_go(self) -> None:
        """End the worker, so that its devices are free: now, or after the current run."""
        self._must_let_go = True
        self.wake()

    def stop(self) -> None:
        """Begin to end: a run in progress is left, the worker ended."""
        self._is_stopping = True
        self.wake()

    def close(self) -> None:
        """Wait for that end."""
        self._thread.join()
        self._wakeup.close()

    # The queue
    # ----------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._is_stopping:
                try:
                    self._step()
                    self.problem = None
                except StorageError as error:
                    self.problem = str(error)
                    self._wakeup.wait(self._settings.lock_retry_s)
        finally:
            self.host.release()
            self._stop_compiling_or_timing()
            self._withdraw(*self.live)

    def _step(self) -> None:
        if self._must_let_go:
            self._must_let_go = False
            self.host.release()
        with self._guard:
            self._is_busy = self._is_open
        try:
            if self._is_busy and self._may_begin() and self._take_one():
                return
        finally:
            self._is_busy = False
            self._stop_compiling_or_timing()
        self.host.let_go_when_idle()
        is_needed = self._is_open or not self.host.is_empty
        self._wakeup.wait(self._pause_s() if is_needed else None)

    def _pause_s(self) -> float:
        return self._settings.poll_s

    def _may_begin(self) -> bool:
        return True

    def _take_one(self) -> bool:
        """Answer this lane's requests, and work the run at its head; False: there is none."""
        self._answer_probes()
        status = self._next()
        if status:
            _check_room()
        if status and self._store.start(status.run):
            self._run(ActiveRun(status, self._settings, time.monotonic()))
        return status is not None

    def _answer_probes(self) -> None:
        for request in self._store.requests():
            target = request.target
            if request.kind == "probe" and target and lane_of_target(target) == self.name:
                error = self._probed(target)
                if not self._is_stopping:  # else the next process that works the queue answers
                    self._store.answer(request.id, error)

    def _next(self) -> RunStatus | None:
        """The head of the queue; what this version cannot read is failed, and the next one looked
        at.
        """
        while True:
            try:
                return self._queued()
            except UnreadableRun as error:
                reason = Failure(kind="Unreadable", message=str(error))
                if not self._store.refuse_queued(error.run, reason):
                    return None  # cancelled just now

    def _queued(self) -> RunStatus | None:
        return self._store.next_queued(self.name, self.which)

    def _probed(self, target: str) -> str | None:
        """Start a worker, and store its device report; why that failed, where it did."""
        try:
            self._probe(target)
        except LabError as error:
            self.host.release()
            return str(error)
        return None

    def _probe(self, target: str) -> None:
        worker, deadline = self.host.get(target), time.monotonic() + self._settings.run_timeout_s
        while worker.environment is None:
            self._wakeup.wait(self._settings.poll_s, worker)
            is_gone = worker.is_gone()
            for event in worker.receive():
                if isinstance(event, Started):
                    worker.may_be_paused = True
                elif isinstance(event, Ready):
                    self._take_ready(worker, event)
                elif isinstance(event, Failed):
                    raise WorkerError(event.error.message)
            if worker.environment is None and is_gone:
                ending = ending_text(worker.reap())
                raise WorkerError(
                    f"the worker of {target} {ending} before it named its devices: "
                    f"{worker.failing_line()}"
                )
            if worker.environment is None and (self._is_stopping or time.monotonic() > deadline):
                raise WorkerError(
                    f"the worker of {target} did not name its devices in time: try it again"
                )
        self.host.rest()


def _check_room() -> None:
    """StorageError, for which the queue waits, where no worker could be started: its run would fail
    for the number of open tabs.
    """
    if (left := descriptors.left()) < WORKER_DESCRIPTORS:
        raise StorageError(
            f"a worker takes {WORKER_DESCRIPTORS} file descriptors, and {left} are left: close tabs "
            "and other programs, or start again with a higher `ulimit -n`"
        )


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

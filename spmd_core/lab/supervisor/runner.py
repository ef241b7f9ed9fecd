"""Works one run at a time on a worker: starts it, follows it to its outcome, and writes that."""

import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from spmd_core.base import (
    SILENT,
    LabError,
    Settings,
    StorageError,
    WorkerError,
    resident_bytes,
    tail_with,
)
from spmd_core.experiment import Experiment, compiler_flags
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.active import ActiveRun, RunEnd
from spmd_core.lab.supervisor.compile_gate import Wakeup
from spmd_core.lab.supervisor.host import WorkerHost
from spmd_core.lab.supervisor.process import Worker, ending_text
from spmd_core.lab.supervisor.unsaved import Ended, UnsavedRuns, say
from spmd_core.machine import read_hardware, spare_bytes
from spmd_core.results import Failure
from spmd_core.runs import CancelCommand, Failed, Ready, RunStatus, Started, check_memory

ENDS = {"cancel": "cancelled", "interrupt": "interrupted"}  # by the kind of a request


def _memory_for(experiment: Experiment, worker: Worker) -> int | None:
    """Bytes that a worker may hold while it runs functions of the user's own, or a program that
    somebody handed in, whose needs nobody knows; None for others, and where free memory is unknown.
    """
    spare = spare_bytes()
    whats = [each.experiment.what for each in experiment.members]
    if spare is None or not any(what.source or what.artifact for what in whats):
        return None
    return resident_bytes(worker.pid) + spare


def _with_worker(run: ActiveRun, worker: Worker) -> RunStatus:
    """A run's status with its worker's number, and, until that has the devices, what it has written
    so far: libtpu writes there which hosts of a slice it waits for.
    """
    written = None if run.is_sent else worker.stderr_tail() or None
    return replace(run.status, worker_pid=worker.pid, stderr_tail=written)


class Runner:
    """The only starter and killer of its worker. It works in one thread; `live` and `problem` may
    be read from any.
    """

    def __init__(
        self, store: Store, settings: Settings, unsaved: UnsavedRuns, changed: threading.Condition
    ):
        self.live: Mapping[str, RunStatus] = {}  # runs in progress by id; never changed in place
        self.problem: str | None = None  # why no run is worked on
        self.host = WorkerHost(settings)
        self._store, self._settings, self._unsaved = store, settings, unsaved
        self._changed, self._wakeup = changed, Wakeup()
        self._is_stopping = False

    # What a lane adds: consideration for the other one
    # ----------------------------------------------------------------------------------------------

    def _before_sending(self, run: ActiveRun) -> None:
        """The worker is ready, and will be sent the run now."""

    def _give_way(self, run: ActiveRun, worker: Worker) -> bool:
        """Pause the worker, or let it go on; whether that changed."""
        return False

    def _stop_compiling_or_timing(self) -> None:
        """The worker is idle, or gone; called again where an error ended the run here."""

    # One run
    # ----------------------------------------------------------------------------------------------

    def _run(self, run: ActiveRun) -> None:
        experiment = run.status.experiment
        self._publish(run.status)
        try:
            check_memory(experiment, self._store.environment(experiment.target), read_hardware())
            held = next((each.experiment.program for each in experiment.members), "")
            worker = self.host.get(experiment.target, compiler_flags(experiment), held)
        except LabError as error:
            self._finish(
                run,
                RunEnd("failed", error=Failure(kind=type(error).__name__, message=str(error))),
                None,
            )
            return
        self._follow(run, worker)
        while run.repeat():  # in a worker of its own: what differs between processes counts
            self.host.release()
            try:
                worker = self.host.get(experiment.target, compiler_flags(experiment))
            except LabError as error:
                run.take(Failed(error=Failure(kind=type(error).__name__, message=str(error))))
            else:
                self._follow(run, worker)
        if run.outcome is None:  # this process ends, and its supervisor gives the run back
            self.host.release()
            self._withdraw(run.status.run)
            return
        outcome, tail = run.outcome, ""
        if outcome.state != "succeeded":
            tail = tail_with(worker.failing_line(), worker.stderr_tail())
        if outcome.renew_worker or worker.is_gone():
            self.host.release()
        worker.resume()  # it is idle, or gone
        self._stop_compiling_or_timing()
        self.host.rest()
        self._finish(run, outcome, tail or None)

    def _follow(self, run: ActiveRun, worker: Worker) -> None:
        next_note, next_look, experiment = 0.0, 0.0, run.status.experiment
        most_bytes = None
        while run.outcome is None and not self._is_stopping:
            if self._give_way(run, worker):
                next_note = 0.0
            if worker.environment and not run.is_sent:
                self._before_sending(run)
                run.ready(worker.environment)
                worker.send(run.command)
                next_note = 0.0
                most_bytes = _memory_for(experiment, worker)
            status, now = _with_worker(run, worker), time.monotonic()
            self._publish(status)
            if now >= next_note:
                next_note = now + self._settings.note_s
                with self._storage_may_fail():
                    self._store.note(status)
            was_woken = self._wakeup.wait(self._settings.poll_s, worker)
            self._listen(run, worker)
            now = time.monotonic()
            if was_woken or now >= next_look:
                next_look = now + self._settings.poll_s
                if state := self._asked_for(status.run):
                    self._ask_to_stop(run, worker, state)
            if run.is_late(now):
                self._ask_to_stop(run, worker, "timed_out")
            if not run.outcome and (problem := worker.problem()):
                worker.stop(0.0)
                run.crashed(problem)
            elif run.must_be_killed(now):
                worker.stop(self._settings.terminate_grace_s)
                run.killed()
            elif most_bytes and not run.outcome and resident_bytes(worker.pid) > most_bytes:
                worker.stop(self._settings.terminate_grace_s)
                run.ate_memory(most_bytes)

    def _asked_for(self, run: str) -> str | None:
        """The terminal state that a request names for a run; None without a request."""
        with self._storage_may_fail():
            kinds = (request.kind for request in self._store.requests() if request.run == run)
            return next((ENDS[kind] for kind in kinds if kind in ENDS), None)
        return None

    def _listen(self, run: ActiveRun, worker: Worker) -> None:
        is_gone = worker.is_gone()  # first, so that its last events are still read
        try:
            for event in worker.receive():
                if isinstance(event, Started):
                    worker.may_be_paused = True
                elif isinstance(event, Ready):
                    self._take_ready(worker, event)
                run.take(event)
        except WorkerError as error:
            worker.stop(self._settings.terminate_grace_s)
            run.crashed(
                f"broke the protocol ({error}); where the code was updated, start the "
                "dashboard again"
            )
        if run.outcome is None and (is_gone or worker.is_broken):
            status = worker.reap()
            words = "" if status == -signal.SIGKILL else worker.failing_line()
            run.crashed(ending_text(status), "" if words == SILENT else words)
        worker.bound_stderr()

    def _ask_to_stop(self, run: ActiveRun, worker: Worker, state: str) -> None:
        if run.stop(state, time.monotonic()):
            worker.send(CancelCommand(run=run.status.run))

    def _take_ready(self, worker: Worker, event: Ready) -> None:
        worker.environment = event.environment
        with self._storage_may_fail():
            self._store.keep_environment(worker.target, event.environment)

    def _finish(self, run: ActiveRun, outcome: RunEnd, stderr_tail: str | None) -> None:
        """Write the outcome; where that fails for long, keep it in memory: no result is dropped."""
        ended = Ended(run.status, outcome, run.texts, stderr_tail)
        deadline = time.monotonic() + self._settings.write_s
        while True:
            try:
                self._unsaved.write(ended)
                self.problem = None
                break
            except StorageError as error:
                if self.problem is None:
                    say(f"run {run.status.run}: its result cannot be written yet: {error}")
                self.problem = str(error)
            if self._is_stopping or time.monotonic() >= deadline:
                self._unsaved.keep(ended, self.problem)
                break
            self._publish(replace(run.status, waiting_for=f"room to write: {self.problem}"))
            self._wakeup.wait(self._settings.lock_retry_s)
        self._withdraw(run.status.run)

    # Publishing
    # ----------------------------------------------------------------------------------------------

    @contextmanager
    def _storage_may_fail(self) -> Iterator[None]:
        """What cannot be written now must not cost the current run; the problem is shown."""
        try:
            yield
            self.problem = None
        except StorageError as error:
            self.problem = str(error)

    def _publish(self, status: RunStatus) -> None:
        with self._changed:
            self.live = {**self.live, status.run: status}
            self._changed.notify_all()

    def _withdraw(self, *runs: str) -> None:
        with self._changed:
            self.live = {run: live for run, live in self.live.items() if run not in runs}
            self._changed.notify_all()

"""Works the queue of a data folder: one run at a time, from one permanent thread that starts,
follows and ends workers.
"""

import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from spmd_core.errors import LabError, StorageError, UnreadableRun, WorkerError
from spmd_core.experiment.plans import compiler_flags
from spmd_core.machine.hardware import read_hardware
from spmd_core.results.result import Failure
from spmd_core.runs.events import CancelCommand, Failed, Ready, RunCommand
from spmd_core.runs.memory import check_memory
from spmd_core.runs.states import RunStatus
from spmd_core.settings import Settings
from spmd_core.store.rows import Request
from spmd_core.store.store import Store
from spmd_core.worker.active import ActiveRun, Outcome
from spmd_core.worker.host import WorkerHost
from spmd_core.worker.last_words import SILENT, tail_with
from spmd_core.worker.process import Worker, ending_text
from spmd_core.worker.turn import Turn
from spmd_core.worker.unwritten import Ended, Unwritten, say


class Supervisor:
    """The only starter and killer of workers. `is_wanted` says whether this process is to work the
    queue now.
    """

    def __init__(
        self, store: Store, turn: Turn, settings: Settings, is_wanted: Callable[[], bool]
    ):
        self.changed = threading.Condition()  # notified when a run changed
        self.live: RunStatus | None = None  # the current run, replaced as a whole
        self.problem: str | None = None  # why the queue stands still
        self.host = WorkerHost(settings)
        self.unwritten = Unwritten(self._write)
        self._store, self._turn, self._settings, self._is_wanted = store, turn, settings, is_wanted
        self._has_looked = False  # for runs that a process left behind, since the turn was taken
        try:
            self._wake_out, self._wake_in = os.pipe()
        except OSError as error:
            raise WorkerError(f"the queue cannot be worked: {error.strerror}: close other "
                              "programs, or raise `ulimit -n`") from error
        os.set_blocking(self._wake_in, False)
        os.set_blocking(self._wake_out, False)
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name="spmd-lab-supervisor", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread still works."""
        return self._thread.is_alive()

    def wake(self) -> None:
        """Have the thread look at the queue and the requests at once."""
        with suppress(BlockingIOError):  # the pipe is full of wake-ups already
            os.write(self._wake_in, b".")

    def close(self) -> None:
        """Stop: a run at hand is interrupted, the worker ended, the lock given up."""
        self._is_stopping = True
        self.wake()
        self._thread.join()
        os.close(self._wake_in)
        os.close(self._wake_out)

    # The queue
    # ------------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            while not self._is_stopping:
                try:
                    self._step()
                    self.problem = None
                except StorageError as error:
                    self.problem = str(error)
                    self._wait(self._settings.lock_retry_s)
        finally:
            self.host.release()
            self.unwritten.give_up()
            self._turn.give_up()
            self._publish(None)

    def _step(self) -> None:
        """One round: take the lock, answer requests, then a run or a pause."""
        if not self._is_wanted():
            self._stand_by()
            return
        if not self._turn.held:
            if not self._turn.take():
                self._wait(self._settings.lock_retry_s)
                return
            self._has_looked = False
        self._turn.keep()
        if not self._has_looked:
            self._store.interrupt_abandoned()
            self._has_looked = True
        self.unwritten.try_again()
        for request in self._store.requests():
            self._store.answer(request.id, self._answer(request))
        status = self._next()
        if status and self._store.start(status.run):
            self._run(ActiveRun(status, self._settings, time.monotonic()))
        elif not status:
            self.host.let_go_when_idle()
            self._wait(self._settings.poll_s)

    def _next(self) -> RunStatus | None:
        """The head of the queue; what this version cannot read is failed, and the next one looked
        at.
        """
        while True:
            try:
                return self._store.next_queued()
            except UnreadableRun as error:
                reason = Failure(kind="Unreadable", message=str(error))
                if not self._store.refuse_queued(error.run, reason):
                    return None  # cancelled just now

    def _stand_by(self) -> None:
        """Nothing here is this process's to run: make way for who may be waiting, else keep the
        devices for a while.
        """
        self.host.let_go_when_idle()
        if self._turn.held and (self.host.is_empty or self._store.active()
                                or self._store.requests()):
            self.host.release()
            self._turn.give_up()
        self._wait(self._settings.poll_s if self._turn.held else None)

    def _answer(self, request: Request) -> str | None:
        """Do what was asked while no run was at hand; why that failed, where it did."""
        if request.kind == "release":
            self.host.release()
        elif request.kind == "probe" and request.target:
            try:
                self._probe(request.target)
            except LabError as error:
                self.host.release()
                return str(error)
        return None

    def _probe(self, target: str) -> None:
        """Start a worker, and keep what it says of its devices."""
        worker, deadline = self.host.get(target), time.monotonic() + self._settings.run_timeout_s
        while worker.environment is None:
            self._wait(self._settings.poll_s, worker)
            is_gone = worker.is_gone()
            for event in worker.receive():
                if isinstance(event, Ready):
                    self._take_ready(worker, event)
                elif isinstance(event, Failed):
                    raise WorkerError(event.error.message)
            if worker.environment is None and is_gone:
                ending = ending_text(worker.reap())
                raise WorkerError(f"the worker of {target} {ending} before it named its devices: "
                                  f"{worker.failing_line()}")
            if worker.environment is None and (self._is_stopping or time.monotonic() > deadline):
                raise WorkerError(
                    f"the worker of {target} did not name its devices in time: try it again")
        self.host.rest()

    # One run
    # --------------------------------------------------------------------------------------------------------

    def _run(self, run: ActiveRun) -> None:
        experiment = run.status.experiment
        self._publish(run.status)
        try:
            check_memory(experiment, self._store.environment(experiment.target), read_hardware())
            worker = self.host.get(experiment.target, compiler_flags(experiment))
        except LabError as error:
            self._finish(run,
                         Outcome("failed",
                                 error=Failure(kind=type(error).__name__, message=str(error))),
                         None)
            return
        self._follow(run, worker)
        outcome = run.outcome or Outcome("interrupted")  # no outcome: this process ends
        tail = ""
        if outcome.state != "succeeded":
            tail = tail_with(worker.failing_line(), worker.stderr_tail())
        if outcome.renew_worker or outcome.state == "interrupted" or worker.is_gone():
            self.host.release()
        self.host.rest()
        self._finish(run, outcome, tail or None)

    def _follow(self, run: ActiveRun, worker: Worker) -> None:
        """Listen to the worker until the run has an outcome, or this process ends."""
        next_note = next_look = 0.0
        while run.outcome is None and not self._is_stopping:
            if worker.environment and not run.is_sent:
                run.ready(worker.environment)
                worker.send(RunCommand(run=run.status.run, experiment=run.status.experiment))
                next_note = 0.0
            with suppress(StorageError):  # told where something of the run cannot be written
                self._turn.keep()
            status, now = replace(run.status, worker_pid=worker.pid), time.monotonic()
            self._publish(status)
            if now >= next_note:
                next_note = now + self._settings.note_s
                with self._storage_may_fail():
                    self._store.note(status)
            was_woken = self._wait(self._settings.poll_s, worker)
            self._listen(run, worker)
            now = time.monotonic()
            if was_woken or now >= next_look:
                next_look = now + self._settings.poll_s
                with self._storage_may_fail():
                    if any(request.kind == "cancel" and request.run == status.run
                           for request in self._store.requests()):
                        self._ask_to_stop(run, worker, "cancelled")
            if run.is_late(now):
                self._ask_to_stop(run, worker, "timed_out")
            if run.must_be_killed(now):
                worker.stop(self._settings.terminate_grace_s)
                run.killed()

    def _listen(self, run: ActiveRun, worker: Worker) -> None:
        is_gone = worker.is_gone()  # asked first, so that what it said before its end is still read
        try:
            for event in worker.receive():
                if isinstance(event, Ready):
                    self._take_ready(worker, event)
                run.take(event)
        except WorkerError as error:
            worker.stop(self._settings.terminate_grace_s)
            run.crashed(f"broke the protocol ({error})")
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

    def _finish(self, run: ActiveRun, outcome: Outcome, stderr_tail: str | None) -> None:
        """Write the outcome; where that fails for long, keep it in memory: no result is dropped."""
        ended = Ended(run.status, outcome, run.texts, stderr_tail)
        deadline = time.monotonic() + self._settings.write_s
        while True:
            try:
                self._write(ended)
                self.problem = None
                break
            except StorageError as error:
                if self.problem is None:
                    say(f"run {run.status.run}: its result cannot be written yet: {error}")
                self.problem = str(error)
            if self._is_stopping or time.monotonic() >= deadline:
                self.unwritten.keep(ended, self.problem)
                break
            waiting_for = f"room to write the result: {self.problem}"
            self._publish(replace(run.status, waiting_for=waiting_for))
            self._wait(self._settings.lock_retry_s)
        self._publish(None)

    def _write(self, ended: Ended) -> None:
        found = ended.outcome
        self._store.finish(
            ended.status.run, found.state, result=found.result, texts=ended.texts,
            error=found.error, stderr_tail=ended.stderr_tail)

    # Waiting and telling
    # --------------------------------------------------------------------------------------------

    @contextmanager
    def _storage_may_fail(self) -> Iterator[None]:
        """What cannot be written now must not cost the current run; the problem is shown."""
        try:
            yield
            self.problem = None
        except StorageError as error:
            self.problem = str(error)

    def _wait(self, timeout_s: float | None, worker: Worker | None = None) -> bool:
        """Wait for a wake-up, an event of the worker, or the time; whether it was a wake-up."""
        sources = [self._wake_out] if worker is None or worker.is_broken else [self._wake_out,
                                                                               worker]
        readable = select.select(sources, [], [], timeout_s)[0]
        if self._wake_out not in readable:
            return False
        os.read(self._wake_out, 4096)
        return True

    def _publish(self, status: RunStatus | None) -> None:
        with self.changed:
            self.live = status
            self.changed.notify_all()

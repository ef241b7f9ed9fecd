"""A part of the queue: works its runs one at a time on a worker, in one permanent thread."""

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
    UnreadableRun,
    WorkerError,
    descriptors,
    resident_bytes,
)
from spmd_core.experiment import Experiment, compiler_flags
from spmd_core.lab.store.queue import Which
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.active import ActiveRun, RunEnd
from spmd_core.lab.supervisor.compile_gate import CompileGate, Wakeup
from spmd_core.lab.supervisor.environment import start_worker
from spmd_core.lab.supervisor.process import Worker, ending_text, tail_with
from spmd_core.lab.supervisor.unsaved import Ended, UnsavedRuns, say
from spmd_core.machine import parse_target, read_hardware, spare_bytes
from spmd_core.results import Failure
from spmd_core.runs import (
    CancelCommand,
    Failed,
    Ready,
    RunStatus,
    Started,
    check_memory,
    lane_of_target,
)

WORKER_DESCRIPTORS = 10  # which this process takes to start a worker, and to follow it
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


def _check_room() -> None:
    """StorageError, for which the queue waits, where no worker could be started: its run would fail
    for the number of open tabs.
    """
    if (left := descriptors.left()) < WORKER_DESCRIPTORS:
        raise StorageError(
            f"a worker takes {WORKER_DESCRIPTORS} file descriptors, and {left} are left: close tabs "
            "and other programs, or start again with a higher `ulimit -n`"
        )


class Lane:
    """One part of the queue, from its head to its worker: the only starter and killer of that.
    `live`, `problem` and `worker` may be read from any thread.
    """

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
        self.live: Mapping[str, RunStatus] = {}  # runs in progress by id; never changed in place
        self.problem: str | None = None  # why no run is worked on
        self.worker: Worker | None = None  # reused while it fits
        self._flags: dict[str, str] = {}  # of its compiler
        self._program = ""  # that somebody handed in, and the worker holds
        self._idle_since = time.monotonic()
        self._store, self._settings, self._unsaved = store, settings, unsaved
        self._changed, self._gate, self._guard = changed, gate, threading.Lock()
        self._wakeup, self._is_stopping = Wakeup(), False
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
            self._release()
            self._stop_compiling_or_timing()
            self._withdraw(*self.live)

    def _step(self) -> None:
        if self._must_let_go:
            self._must_let_go = False
            self._release()
        with self._guard:
            self._is_busy = self._is_open
        try:
            if self._is_busy and self._may_begin() and self._take_one():
                return
        finally:
            self._is_busy = False
            self._stop_compiling_or_timing()
        idle_s = time.monotonic() - self._idle_since
        if self.worker and (idle_s > self._settings.idle_s or _is_lost(self.worker)):
            self._release()
        is_needed = self._is_open or self.worker is not None
        self._wakeup.wait(self._settings.poll_s if is_needed else None)

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
                error = None
                try:
                    self._probe(target)
                except LabError as problem:
                    self._release()
                    error = str(problem)
                if not self._is_stopping:  # else the next process that works the queue answers
                    self._store.answer(request.id, error)

    def _next(self) -> RunStatus | None:
        """The head of the queue; what this version cannot read is failed, and the next one looked
        at.
        """
        while True:
            try:
                return self._store.next_queued(self.name, self.which)
            except UnreadableRun as error:
                reason = Failure(kind="Unreadable", message=str(error))
                if not self._store.refuse_queued(error.run, reason):
                    return None  # cancelled just now

    def _probe(self, target: str) -> None:
        """Start a worker, and store its device report."""
        worker, deadline = self._worker_for(target), time.monotonic() + self._settings.run_timeout_s
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
        self._idle_since = time.monotonic()

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
            worker = self._worker_for(experiment.target, compiler_flags(experiment), held)
        except LabError as error:
            self._finish(
                run,
                RunEnd("failed", error=Failure(kind=type(error).__name__, message=str(error))),
                None,
            )
            return
        self._follow(run, worker)
        while run.repeat():  # in a worker of its own: what differs between processes counts
            self._release()
            try:
                worker = self._worker_for(experiment.target, compiler_flags(experiment))
            except LabError as error:
                run.take(Failed(error=Failure(kind=type(error).__name__, message=str(error))))
            else:
                self._follow(run, worker)
        if run.outcome is None:  # this process ends, and its supervisor gives the run back
            self._release()
            self._withdraw(run.status.run)
            return
        outcome, tail = run.outcome, ""
        if outcome.state != "succeeded":
            tail = tail_with(worker.failing_line(), worker.stderr_tail())
        if outcome.renew_worker or worker.is_gone():
            self._release()
        worker.resume()  # it is idle, or gone
        self._stop_compiling_or_timing()
        self._idle_since = time.monotonic()
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
            # libtpu writes there which hosts of a slice it waits for
            written = None if run.is_sent else worker.stderr_tail() or None
            status = replace(run.status, worker_pid=worker.pid, stderr_tail=written)
            now = time.monotonic()
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

    # Its worker
    # ----------------------------------------------------------------------------------------------

    def _worker_for(
        self, target: str, flags: Mapping[str, str] | None = None, program: str = ""
    ) -> Worker:
        """A worker for `target`, started where none fits. WorkerError where another process holds
        the devices. One that holds a `program` that somebody handed in runs nothing else.

        One worker compiles for all topologies in turn; `flags` are its compiler's, None: whichever
        it was loaded with.
        """
        worker = self.worker
        if (
            worker
            and self._program == program
            and self._is_for(worker, target, flags)
            and not _is_lost(worker)
            # a frozen one would cost the next run all its time
            and worker.answers(self._settings.ping_s)
        ):
            worker.target = target
            worker.begin_stderr()
            return worker
        self._release()
        self._flags, self._program = dict(flags or {}), program
        self.worker = start_worker(self._settings, target, self._flags, program)
        return self.worker

    def _is_for(self, worker: Worker, target: str, flags: Mapping[str, str] | None) -> bool:
        if worker.target == target:
            return flags in (None, self._flags)
        kinds = {parse_target(worker.target).kind, parse_target(target).kind}
        return kinds == {"tpu"} and flags == self._flags

    def _release(self) -> None:
        """End the worker, so that its devices are free."""
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.stop(self._settings.terminate_grace_s)
            worker.close()


def _is_lost(worker: Worker) -> bool:
    """Whether an idle worker can no longer be used; events of its own are dropped."""
    try:
        worker.receive()
    except WorkerError:
        return True
    return worker.is_gone()

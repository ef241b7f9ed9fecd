"""Waiting for what the queue's worker does: a run to its end, the devices for their answer."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from spmd_core.base import StorageError, WorkerError
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.folder_lock import Clients, QueueLock
from spmd_core.lab.supervisor.supervisor import Supervisor
from spmd_core.results import Environment
from spmd_core.runs import RunStatus, behind

POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Followed:
    """A run to wait for. `supervisor` gives the one of the moment: it is renewed where it ended.

    `write_s` is how long the data folder may fail while the run is not in progress; `stuck` is run
    -> since when it does, kept by the Lab: who waits may do so in many short looks.
    """

    run: str
    status: Callable[[], RunStatus]
    supervisor: Callable[[], Supervisor]
    queue_lock: QueueLock
    write_s: float
    stuck: dict[str, float]

    def wait(
        self, timeout_s: float | None, on_change: Callable[[RunStatus], None] | None
    ) -> RunStatus:
        """Wait until the run is over, or for `timeout_s`; its status then."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        last = None
        while True:
            supervisor = self.supervisor()
            before = supervisor.in_progress(self.run)
            status = self.status()
            self._check_moves(status.run)
            if on_change and status != last:
                on_change(status)
            last = status
            if status.is_over or (deadline is not None and time.monotonic() >= deadline):
                return status
            with supervisor.changed:
                if supervisor.in_progress(self.run) in (None, before):
                    supervisor.changed.wait(POLL_S)

    def _check_moves(self, run: str) -> None:
        """An error where nobody works the queue, or the folder fails for too long."""
        supervisor = self.supervisor()
        if not supervisor.is_alive and self.queue_lock.holder() is None:
            raise WorkerError("the thread that works the queue ended, as said above: start again")
        problem = supervisor.problem
        if problem is None or supervisor.in_progress(run):
            self.stuck.pop(run, None)
        elif time.monotonic() - self.stuck.setdefault(run, time.monotonic()) > self.write_s:
            raise StorageError(problem)


def answered(
    store: Store, supervisor: Supervisor, number: int, target: str, timeout_s: float
) -> Environment:
    """The devices' answer to request `number`; WorkerError where they do not answer."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        request = store.request(number)
        if request is None or request.answered:
            environment = store.environment(target)
            if environment is None or (request and request.error):
                raise WorkerError(
                    request.error
                    if request and request.error
                    else f"target {target} did not answer: try it again"
                )
            return environment
        with supervisor.changed:
            supervisor.changed.wait(POLL_S / 4)
    raise WorkerError(
        f"target {target} did not answer within {timeout_s:g} s: see what runs there, or try again"
    )


def as_seen(
    status: RunStatus,
    queue_lock: QueueLock,
    clients: Clients,
    stored: Callable[[str], RunStatus],
    in_progress: Callable[[], Iterable[RunStatus]],
    problem: str | None,
) -> RunStatus:
    """A stored status, corrected by the locks: nobody works on it any more, or waits for it.

    `in_progress`: the runs that have left the queue; `problem`: why this process does not work it.
    """
    if status.is_over:
        return status
    if queue_lock.holder() is None:
        status = stored(status.run)  # it may have been finished between the two looks
        if status.is_over:
            return status
        is_awaited = clients.lives(status.client)  # by who takes the lock within a moment
        if not is_awaited and (status.state != "queued" or not status.lasts):
            return replace(status, state="interrupted", waiting_for=None)
        waiting_for = "next process" if is_awaited else "process"
        return replace(status, state="queued", waiting_for=waiting_for, held_up=None)
    if status.state == "queued":
        if problem:
            return replace(status, waiting_for=f"stopped queue: {problem}")
        if status.held_up:
            return replace(status, waiting_for=f"cluster: {status.held_up}")
        ahead = (status.queue_position or 1) - 1
        first = None if ahead else behind(status, in_progress())
        waiting_for = f"earlier runs: {ahead}" if ahead else "current run"
        if first and first.lane != status.lane:
            waiting_for = f"timed run: {first.run}"
        return replace(status, waiting_for=waiting_for)
    return status

"""Gives a waiting caller the answer of the devices, and a run as the locks show it."""

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from spmd_core.base import WorkerError
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.folder_lock import Clients, QueueLock
from spmd_core.lab.supervisor.supervisor import Supervisor
from spmd_core.results import Environment
from spmd_core.runs import RunStatus, behind

POLL_S = 0.2


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

"""Works the queue of a data folder: holds its lock, and has two lanes work the runs."""

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from spmd_core.base import MovedFolder, Settings, StorageError, UnreadableRun
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.compile_gate import CompileGate, Wakeup
from spmd_core.lab.supervisor.folder_lock import Clients, QueueLock
from spmd_core.lab.supervisor.lane import Lane
from spmd_core.lab.supervisor.lanes import CompilingLane, HelpingLane, TimingLane
from spmd_core.lab.supervisor.unsaved import UnsavedRuns
from spmd_core.machine import Hardware, read_hardware
from spmd_core.runs import COMPILING, TIMING, RunStatus

COMPILER_BYTES = 3 * 2**30  # of memory for each: what compiling a large model takes
MOST_COMPILERS = 8


def compilers(settings: Settings, hardware: Hardware) -> int:
    """How many workers may compile at the same time, at least one."""
    if settings.compilers:
        return min(settings.compilers, MOST_COMPILERS)
    room = hardware.available_bytes // COMPILER_BYTES if hardware.available_bytes else 1
    return max(1, min(hardware.cores, room, MOST_COMPILERS))


def helping_lanes(store: Store, settings: Settings, *shared: Any) -> dict[str, Lane]:
    """Further compilers of this machine, for batches, by their names."""
    return {
        f"{COMPILING} {number}": HelpingLane(number, store, settings, *shared)
        for number in range(2, compilers(settings, read_hardware()) + 1)
    }


class Supervisor:
    """The owner of the queue's lock and of the lanes, with a permanent thread. `is_wanted`: whether
    this process is to work the queue now; `more` makes the lanes that compile beside the first.
    """

    def __init__(
        self,
        store: Store,
        queue_lock: QueueLock,
        clients: Clients,
        settings: Settings,
        is_wanted: Callable[[], bool],
        more: Callable[..., Mapping[str, Lane]] = helping_lanes,
    ):
        self.changed = threading.Condition()  # notified when a run changed
        self.unsaved = UnsavedRuns(store)
        self._store, self._queue_lock, self._clients = store, queue_lock, clients
        self._settings, self._is_wanted = settings, is_wanted
        gate = CompileGate()
        shared = (store, settings, self.unsaved, self.changed, gate)
        self.lanes: dict[str, Lane] = {
            TIMING: TimingLane(*shared),
            COMPILING: CompilingLane(*shared),
        }
        self.lanes |= more(*shared)
        gate.on_change(self._ring)
        self._problem: str | None = None
        self._has_looked = False  # for runs that a process left behind, since the lock was taken
        self._wakeup, self._is_stopping = Wakeup(), False
        for lane in self.lanes.values():
            lane.start()
        self._thread = threading.Thread(target=self._work, name="spmd-lab-supervisor", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread still works; it ends where that of a lane did."""
        return self._thread.is_alive()

    @property
    def problem(self) -> str | None:
        """Why the queue is stopped; None where it is not."""
        lanes = (lane.problem for lane in self.lanes.values())
        return next((problem for problem in (self._problem, *lanes) if problem), None)

    def _ring(self) -> None:
        for name, lane in self.lanes.items():
            if name != TIMING:
                lane.wake()

    def in_progress(self, run: str) -> RunStatus | None:
        """That run as its lane sees it; None where no lane works on it."""
        lives = (lane.live.get(run) for lane in self.lanes.values())
        return next((live for live in lives if live), None)

    def wake(self) -> None:
        """Have all threads look at the queue and the requests at once."""
        self._wakeup.set()
        for lane in self.lanes.values():
            lane.wake()

    def close(self) -> None:
        """Stop: runs in progress are given back or interrupted, the workers ended, the lock
        released.
        """
        self._is_stopping = True
        self._wakeup.set()
        self._thread.join()
        self._wakeup.close()

    def _work(self) -> None:
        lanes = self.lanes.values()
        try:
            while not self._is_stopping and all(lane.is_alive for lane in lanes):
                try:
                    self._step()
                    self._problem = None
                except StorageError as error:
                    self._problem = str(error)
                    if isinstance(error, MovedFolder):
                        self._leave()
                    self._wakeup.wait(self._settings.lock_retry_s)
        finally:
            for lane in lanes:
                lane.stop()
            for lane in lanes:
                lane.close()
            self.unsaved.give_up()
            if self._queue_lock.held:
                with suppress(StorageError):  # the next holder does it
                    # to a process that waits to take up its own when this one ends
                    own, lives = self._clients.own, self._clients.lives
                    self._store.give_back(lambda client: client != own and lives(client))
                self._queue_lock.release()
            with self.changed:
                self.changed.notify_all()

    def _step(self) -> None:
        self._clients.keep()
        if not self._is_wanted():
            self._stand_by()
            return
        if not self._queue_lock.held:
            if not self._queue_lock.acquire():
                self._wakeup.wait(self._settings.lock_retry_s)
                return
            self._has_looked = False
        self._queue_lock.keep()
        self.unsaved.try_again()  # before a run that was to be stored is given back
        if not self._has_looked:
            self._store.give_back(self._clients.lives)
            self._store.let_on()  # what held it up was known to the process before
            self._has_looked = True
        self._answer_requests()
        self._drop_abandoned()
        for lane in self.lanes.values():
            lane.open()
        self._wakeup.wait(self._settings.poll_s)

    def _leave(self) -> None:
        """Let another process work the queue of a folder that was moved away, once no run is in
        progress.
        """
        idle = [lane.shut() for lane in self.lanes.values()]
        if self._queue_lock.held and all(idle):
            self._queue_lock.release()

    def _stand_by(self) -> None:
        """Nothing here is this process's to run: make way for who may be waiting, else keep the
        devices for a while.
        """
        lanes = self.lanes.values()
        idle = [lane.shut() for lane in lanes]
        if self._queue_lock.held and all(idle):
            if all(lane.worker is None for lane in lanes):
                self._queue_lock.release()
            elif self._store.active() or self._store.requests():
                for lane in lanes:
                    lane.let_go()
        self._wakeup.wait(self._settings.poll_s if self._queue_lock.held else None)

    def _answer_requests(self) -> None:
        """Have the workers release their devices where requested, and drop requests that are over.
        Lanes handle cancel requests of their own run, and probes of their own targets.
        """
        for request in self._store.requests():
            if request.kind == "release":
                for lane in self.lanes.values():
                    lane.let_go()
                self._store.answer(request.id)
            elif request.run and self._is_over(request.run):
                self._store.answer(request.id)

    def _drop_abandoned(self) -> None:
        """Interrupt the runs that nobody waits for: those in progress are requested to end."""
        if abandoned := self._store.abandoned(self._clients.lives):
            asked = {request.run for request in self._store.requests()}
            for run in abandoned:
                if not self._store.cancel_queued(run, "interrupted") and run not in asked:
                    self._store.ask("interrupt", run=run)

    def _is_over(self, run: str) -> bool:
        try:
            status = self._store.status(run)
        except UnreadableRun:
            return True  # nobody works on it
        return status is None or status.is_over

"""The lanes of a cluster: each has one run of a batch compiled there, from the queue to its end."""

import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial

from spmd_core.base import Settings, StorageError
from spmd_core.lab.cluster.connection import Connection
from spmd_core.lab.cluster.remote import Compiled
from spmd_core.lab.cluster.task import Task
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.active import ActiveRun, Outcome
from spmd_core.lab.supervisor.hush import Hush
from spmd_core.lab.supervisor.lane import Lane
from spmd_core.lab.supervisor.unwritten import Unwritten
from spmd_core.results import COMPILING

MOST = 64  # runs on the cluster at the same time
_SELDOM = (
    8  # times as long a lane waits that has no place there now: 64 that look cost 3 % of a core
)
_WORKER = "a worker of the Dask cluster"
_SCHEDULER = "the Dask scheduler to answer again"


def cluster_lanes(
    store: Store, settings: Settings, unwritten: Unwritten, changed: threading.Condition, hush: Hush
) -> Mapping[str, Lane]:
    """Lanes for all that a cluster may take at once, by their names."""
    connection = Connection(settings.dask, partial(_tell, store), MOST)
    shared = (store, settings, unwritten, changed, hush)
    return {
        f"cluster {number}": ClusterLane(number, connection, *shared)
        for number in range(1, MOST + 1)
    }


def _tell(store: Store, problem: str | None, begun: float) -> None:
    """Have what waits for the cluster say why; the next try says it again where that fails."""
    with suppress(StorageError):
        if problem is None:
            store.let_on()
        else:
            store.hold_up(COMPILING, problem, begun)


class ClusterLane(Lane):
    """One place of what the cluster takes at once; those above its room rest. The worker is a Dask
    worker's, so that nothing here is paused while something is timed.
    """

    name = COMPILING

    def __init__(
        self,
        number: int,
        connection: Connection,
        store: Store,
        settings: Settings,
        unwritten: Unwritten,
        changed: threading.Condition,
        hush: Hush,
    ):
        super().__init__(store, settings, unwritten, changed, hush)
        self.which = "for the cluster"
        self._number, self._cluster = number, connection
        self._thread.name = f"spmd-lab-cluster-{number}"

    def close(self) -> None:
        """Wait for the end, and let go of the cluster."""
        super().close()
        self._cluster.leave()

    def _answer_probes(self) -> None:
        """The lane of this machine does."""

    def _may_begin(self) -> bool:
        if self._cluster.is_there:
            return self._number <= self._cluster.room
        if self._number == 1 and self._next():
            self._cluster.want()
        return False

    def _pause_s(self) -> float:
        used = self._number <= max(1, self._cluster.room)
        return self._settings.poll_s * (1 if used else _SELDOM)

    # One run
    # ----------------------------------------------------------------------------------------------

    def _run(self, run: ActiveRun) -> None:
        run.status = replace(run.status, waiting_for=_WORKER)
        task: Task | None = None
        found: Compiled | None = None
        while run.outcome is None:
            if self._is_stopping or self._cluster.problem:
                if self._put_back(run):
                    return
                if self._is_stopping:
                    break
            elif task is None or task.is_lost:
                task = self._submitted(run)
            elif found := task.found():
                run.outcome = self._outcome(run, found)
                break
            else:
                _take_said(run, task)
            self._tell(run)
            self._bell.wait(self._settings.poll_s)
            asked = self._asked_for(run.status.run)
            if asked and run.stop(asked, time.monotonic()):
                run.killed()
        self._cluster.forget(run.status.run)
        self._finish(run, run.outcome or Outcome("interrupted"), found and found.stderr_tail)

    def _tell(self, run: ActiveRun) -> None:
        """Say how it stands, to who follows it here and in other processes."""
        if run.status != self.live:
            with self._storage_may_fail():
                self._store.note(run.status)
        self._publish(run.status)

    def _submitted(self, run: ActiveRun) -> Task | None:
        """Its task; None while the cluster is away. What it had gone through counts no longer."""
        experiment = run.status.experiment
        self._cluster.forget(run.status.run)
        task = self._cluster.submit(run.status.run, experiment, self._settings.longest_s(True))
        run.status = replace(
            run.status,
            state="starting",
            phase=None,
            strategy=None,
            waiting_for=_WORKER if task else _SCHEDULER,
        )
        return task

    def _put_back(self, run: ActiveRun) -> bool:
        """Leave a run to whoever works the queue when the cluster can be used again."""
        self._cluster.forget(run.status.run)
        with self._storage_may_fail():
            if self._store.put_back(run.status.run, self._cluster.problem):
                self._publish(None)
                return True
        return False

    def _outcome(self, run: ActiveRun, found: Compiled) -> Outcome:
        """How it ended there, as if it had been compiled here."""
        run.texts, run.environment = found.texts, found.environment
        result = found.result and found.result.model_copy(update={"run": run.status.run})
        if found.environment is not None:
            with self._storage_may_fail():
                self._store.keep_environment(run.status.experiment.target, found.environment)
        return Outcome(found.state, result, found.error)


def _take_said(run: ActiveRun, task: Task) -> None:
    """Take what the worker says of how far it is; its time begins when it does."""
    if task.said is None:
        return
    if run.status.state == "starting":
        run.status = replace(run.status, state="running", started_at=time.time(), waiting_for=None)
    phase, strategy = task.said
    run.status = replace(run.status, phase=phase, strategy=strategy)

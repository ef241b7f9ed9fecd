"""The lane of a cluster: it has the runs of batches compiled there, as many at once as it takes, by
a process of its own, the Dask client.
"""

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace

from pydantic import ValidationError

from spmd_core.base import (
    SILENT,
    RequestError,
    Settings,
    StorageError,
    WorkerError,
    shorten,
    waited_s,
)
from spmd_core.lab.cluster.compiling import Compiled
from spmd_core.lab.cluster.messages import (
    ALIVE_S,
    EVENTS,
    Alive,
    Doing,
    Ended,
    Event,
    Forget,
    Lost,
    Reach,
    Refuse,
    Submit,
)
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.active import ActiveRun, RunEnd
from spmd_core.lab.supervisor.compile_gate import CompileGate
from spmd_core.lab.supervisor.environment import dask_environment
from spmd_core.lab.supervisor.lane import ENDS, Lane
from spmd_core.lab.supervisor.process import Child, ending_text
from spmd_core.lab.supervisor.unsaved import UnsavedRuns, say
from spmd_core.results import LOST, Failure
from spmd_core.runs import COMPILING

START_S = 30.0  # to load Dask, on a busy machine
SILENT_S = 2.5  # once it has loaded Dask, it sends something every ALIVE_S


class DaskProcess(Child[Event]):
    """A `python -m spmd_core.lab.cluster`, which holds the connection to the scheduler."""

    def __init__(self, settings: Settings):
        words = [settings.dask, *settings.tls_of(settings.dask)]
        super().__init__("spmd_core.lab.cluster", words, dask_environment(), EVENTS)
        self._reader.settimeout(SILENT_S)  # a process that takes no commands is broken
        self._address, self._limit_s = settings.dask, START_S
        self._silent_s, self._looked_at, self._waited_s = 0.0, time.monotonic(), 0.0

    def receive(self) -> list[Event]:
        """The events that have come, without waiting. WorkerError for junk in the stream."""
        events = super().receive()
        if events:
            self._silent_s, self._limit_s = 0.0, SILENT_S
        return events

    def failure(self, what: str = "") -> str | None:
        """Why it cannot be used any more, `what` where that is known; None where it can."""
        # a machine that rests, or a lab that is busy, is not the other's silence; nor is a machine
        # that has no core for it
        now, waited = time.monotonic(), waited_s(self.pid)
        passed = min(now - self._looked_at, ALIVE_S) - (waited - self._waited_s)
        self._silent_s = max(0.0, self._silent_s + passed)  # a wait is reported once it is over
        self._looked_at, self._waited_s = now, waited
        if not what and self.is_gone():
            what, line = ending_text(self.reap()), self.failing_line()
            what += "" if line == SILENT else f" ({line[:60]})"
        if not what and self._silent_s >= self._limit_s:
            what = f"was silent for {self._limit_s:g} s"
        if not what:
            return None
        return (
            f"the process that talks to the Dask scheduler {shorten(self._address)} {what[:400]}: "
            "see who may reach the scheduler, and try it again"
        )


MOST = 64  # runs on the cluster at the same time
_AGAIN_S = 1.0  # after a client's process that failed, until the next one


def cluster_lanes(
    store: Store,
    settings: Settings,
    unsaved: UnsavedRuns,
    changed: threading.Condition,
    gate: CompileGate,
) -> Mapping[str, Lane]:
    """The one lane of a cluster, by its name."""
    return {"cluster": ClusterLane(store, settings, unsaved, changed, gate)}


class ClusterLane(Lane):
    """The runs that are on the cluster, in one thread: their ends and phases come from the process
    of the Dask client. Nothing here is paused while something is timed, since Dask's workers
    compile.
    """

    name = COMPILING
    which = "for the cluster"

    def __init__(
        self,
        store: Store,
        settings: Settings,
        unsaved: UnsavedRuns,
        changed: threading.Condition,
        gate: CompileGate,
    ):
        super().__init__(store, settings, unsaved, changed, gate)
        self._thread.name = "spmd-lab-cluster"
        self._dask: DaskProcess | None = None
        self._reason: str | None = None  # why the cluster cannot be used
        self._next_try = 0.0  # monotonic seconds
        self._room = 0  # runs that it takes at once
        self._runs: dict[str, ActiveRun] = {}
        self._submitted: set[str] = set()
        self._left_out = ""  # workers that get no run, and why

    def _answer_probes(self) -> None:
        """The lane of this machine does."""

    def _work(self) -> None:
        try:
            super()._work()
        finally:
            for run in tuple(self._runs.values()):
                if not self._put_back(run):
                    self._end(run, RunEnd("interrupted"))
            self._disconnect()

    def _step(self) -> None:
        with self._guard:
            is_open = self._is_open
            self._is_busy = is_open or bool(self._runs)
        try:
            self._listen_to_dask()
            self._cancel_asked()
            if is_open or self._runs:
                self._have_compiled(is_open)
        finally:
            self._is_busy = bool(self._runs)
        self._wakeup.wait(self._settings.poll_s if is_open or self._runs else None, self._dask)

    def _have_compiled(self, is_open: bool) -> None:
        """Connect once something waits for the cluster, and give it as much as it takes; one that
        cannot be used and that nothing waits for is left alone.
        """
        if self._room == 0 and not self._runs and not (is_open and self._next()):
            if self._reason:
                self._disconnect()
        elif self._dask is None and time.monotonic() >= self._next_try:
            begun = time.time()
            try:
                self._dask = DaskProcess(self._settings)
            except WorkerError as error:
                self._next_try = time.monotonic() + _AGAIN_S
                self._take_reach(Reach(room=0, problem=str(error), begun=begun))
        while is_open and len(self._runs) < self._room and self._take_one():
            pass

    def _disconnect(self) -> None:
        dask, self._dask, self._room = self._dask, None, 0
        if dask is not None:
            dask.stop(0.0)
            dask.close()

    # Events of the Dask client's process
    # ----------------------------------------------------------------------------------------------

    def _listen_to_dask(self) -> None:
        if (dask := self._dask) is None:
            return
        begun = time.time()
        try:
            for event in dask.receive():
                self._take_event(event)
            problem = dask.failure()
        except WorkerError as error:
            problem = dask.failure(f"broke the protocol ({error})")
        if problem:
            self._disconnect()
            self._next_try = time.monotonic() + _AGAIN_S
            self._submitted.clear()
            self._take_reach(Reach(room=0, problem=problem, begun=begun))

    def _take_event(self, event: Event) -> None:
        run = None if isinstance(event, Alive | Reach) else self._runs.get(event.run)
        match event:
            case Reach():
                self._take_reach(event)
            case Doing() if run:
                if run.status.state == "starting":  # its time begins when a worker does
                    run.status = replace(
                        run.status, state="running", started_at=time.time(), waiting_for=None
                    )
                run.status = replace(run.status, phase=event.phase, strategy=event.strategy)
                self._tell(run)
            case Lost() if run:
                self._submitted.discard(event.run)
                self._submit(run)
            case Ended() if run:
                self._take_end(run, event)

    def _take_reach(self, reach: Reach) -> None:
        """Take the state of the cluster. Where it cannot be used, runs that wait for it get the
        reason, and those that were there go back to the queue.
        """
        had, self._reason, self._room = self._reason, reach.problem, min(reach.room, MOST)
        if reach.left_out != self._left_out:
            self._left_out = reach.left_out
            say(f"the cluster: {reach.left_out or 'no worker is left out any more'}")
        with suppress(StorageError):  # the next look repeats it
            if reach.problem:
                self._store.hold_up(COMPILING, reach.problem, reach.begun)
            elif had:
                self._store.let_on()
        for run in tuple(self._runs.values()):
            if reach.problem:
                self._put_back(run)
            elif run.status.run not in self._submitted:
                self._submit(run)

    def _take_end(self, run: ActiveRun, ended: Ended) -> None:
        """How it ended there, as if it had been compiled here; what cannot be read is refused."""
        if ended.problem:
            self._end(run, RunEnd("crashed", error=Failure(kind=LOST, message=ended.problem)))
            return
        try:
            compiled = Compiled.model_validate_json(ended.compiled or "")
            if compiled.result and compiled.result.experiment.id != run.status.experiment.id:
                raise RequestError("it is another experiment's")
        except (ValidationError, RequestError) as error:
            how = f"sent what cannot be read ({type(error).__name__})"
            if self._dask:
                self._dask.send(Refuse(run=run.status.run, how=how))
            return
        run.texts, run.environment = compiled.texts, compiled.environment
        if compiled.environment is not None:
            with self._storage_may_fail():
                self._store.keep_environment(run.status.experiment.target, compiled.environment)
        result = compiled.result and compiled.result.model_copy(update={"run": run.status.run})
        self._end(run, RunEnd(compiled.state, result, compiled.error), compiled.stderr_tail)

    # One run
    # ----------------------------------------------------------------------------------------------

    def _run(self, run: ActiveRun) -> None:
        self._runs[run.status.run] = run
        self._submit(run)

    def _submit(self, run: ActiveRun) -> None:
        """Have it compiled, where the cluster is there. What it had gone through counts no longer."""
        if self._dask and self._room:
            self._submitted.add(run.status.run)
            self._dask.send(
                Submit(
                    run=run.status.run,
                    spec=json.dumps(run.status.experiment.to_json(), separators=(",", ":")),
                    timeout_s=self._settings.longest_s(True),
                )
            )
        run.status = replace(
            run.status,
            state="starting",
            phase=None,
            strategy=None,
            left_out=self._left_out,
            waiting_for="Dask worker" if run.status.run in self._submitted else "Dask scheduler",
        )
        self._tell(run)

    def _tell(self, run: ActiveRun) -> None:
        with self._storage_may_fail():
            self._store.note(run.status)
        self._publish(run.status)

    def _cancel_asked(self) -> None:
        if not self._runs:
            return
        with self._storage_may_fail():
            for request in self._store.requests():
                state, run = ENDS.get(request.kind), self._runs.get(request.run or "")
                if state and run:
                    run.stop(state, time.monotonic())
                    run.killed()
                    self._end(run, run.outcome or RunEnd(state))

    def _put_back(self, run: ActiveRun) -> bool:
        with self._storage_may_fail():
            if self._store.put_back(run.status.run, self._reason):
                self._forget(run)
                self._withdraw(run.status.run)
                return True
        return False

    def _end(self, run: ActiveRun, outcome: RunEnd, stderr_tail: str | None = None) -> None:
        self._forget(run)
        self._finish(run, outcome, stderr_tail)

    def _forget(self, run: ActiveRun) -> None:
        del self._runs[run.status.run]
        if self._dask and run.status.run in self._submitted:
            self._dask.send(Forget(run=run.status.run))
        self._submitted.discard(run.status.run)

"""The Lab: submit, follow, cancel and look up runs of one data folder. What the screens and the
command line call.
"""

import atexit
import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from pathlib import Path

from spmd_core.advice import in_words
from spmd_core.answers import WhatIf
from spmd_core.base import (
    Settings,
    StorageError,
    UnreadableRun,
    WorkerError,
    default_data_folder,
    held_folder,
    read_settings,
    refuse,
    shorten,
)
from spmd_core.experiment import Experiment
from spmd_core.fields import Spec
from spmd_core.history import asks_for_examples, matches
from spmd_core.lab.archive.archives import Archives
from spmd_core.lab.cluster.lanes import cluster_lanes
from spmd_core.lab.collections import Collections, Notebook, SharedSearches
from spmd_core.lab.store.labels import COMMANDS, Action
from spmd_core.lab.store.limits import (
    COMMAND_LINE,
    Asker,
    Room,
    check_asker,
    check_may_act,
    check_may_change,
    check_program,
    room,
)
from spmd_core.lab.store.rows import Unread
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.folder_lock import Clients, QueueLock
from spmd_core.lab.supervisor.following import POLL_S, answered, as_seen
from spmd_core.lab.supervisor.partitioning import MOST_S, Partitioning
from spmd_core.lab.supervisor.supervisor import Supervisor, helping_lanes
from spmd_core.lab.supervisor.unsaved import UnsavedRuns
from spmd_core.machine import Hardware, parse_target, read_hardware
from spmd_core.reports import Subject
from spmd_core.results import Environment, Result
from spmd_core.runs import (
    ACTIVE,
    COMPILING,
    TERMINAL,
    TIMING,
    Partitioned,
    RunStatus,
    RunSummary,
    check_runs_here,
)
from spmd_core.terms import experiment_words
from spmd_core.words import sharding_verdict, short_verdict, waiting_words
from spmd_core.workloads import Described, Listed, programs, take_declared

HARDWARE_S = 2.0  # how long a look at the hardware stays good
ASKED_S = 0.5  # between two requests of a caller that waits for a changed program
RESULTS_KEPT = 8

_open_labs: dict[Path, "Lab"] = {}
_opening = threading.Lock()


class Lab:
    """One data folder, as this process sees it. Every method may be called from any thread."""

    PARTITION_S = 2 * MOST_S  # that the two programs of `what_if` take at most

    def __init__(self, folder: Path, settings: Settings, serve: bool):
        self.folder = folder
        self._store = Store(folder)
        self.notebook = Notebook(self._store, settings, self.allow)
        self.collections = Collections(self._store, settings, self.allow)
        self.archives = Archives(self._store, settings, self.allow)
        self.searches = SharedSearches(self._store, settings, self.allow)
        self._queue_lock = QueueLock(folder, self._store)
        self._clients = Clients(folder)
        self._settings, self._serve = settings, serve
        self._guard = threading.Lock()
        self._own_runs: set[str] = set()  # submitted here, and not known to be over
        self._own_requests: set[int] = set()
        # run -> since when the folder fails: a caller may wait in many short looks
        self._stuck: dict[str, float] = {}
        self._results: dict[str, Result] = {}
        self._searched: dict[str, frozenset[str]] = {}  # of runs that were searched through
        self._hardware: tuple[float, Hardware] | None = None
        self._partitioning = Partitioning(self.hardware)
        self._propagating = Partitioning(self.hardware, is_quick=True)
        self._supervisor = self._new_supervisor()

    @classmethod
    def open(
        cls,
        data_folder: Path | None = None,
        *,
        serve: bool = True,
        settings: Settings | None = None,
    ) -> "Lab":
        """The Lab of a folder: one object per folder and process.

        With `serve` this process works the queue for as long as it lives, runs of other processes
        included; without, only while a run that it submitted is not over. `settings` are read from
        the environment where none are given. StorageError where the folder cannot be used.
        """
        # two Labs on one folder would share its lock
        folder = held_folder.resolved(
            (data_folder or default_data_folder()).expanduser().absolute()
        )
        with _opening:
            lab = _open_labs.get(folder)
            if lab is None:
                lab = _open_labs[folder] = cls(folder, settings or read_settings(), serve)
                atexit.register(lab.close)
            elif serve and not lab._serve:
                lab._serve = True
                lab._supervisor.wake()
            return lab

    def close(self) -> None:
        """End the worker and give up the folder: a run in progress goes back to the queue where
        another process waits for it, else it is interrupted.
        """
        with _opening:
            if _open_labs.pop(self.folder, None) is not self:
                return
        atexit.unregister(self.close)
        self._supervisor.close()
        self._partitioning.close()
        self._propagating.close()
        self._queue_lock.close()
        self._clients.close()
        self._store.close()

    # Runs ---------------------------------------------------------------------------------------

    def submit(
        self,
        experiment: Experiment,
        asker: Asker = COMMAND_LINE,
        compile_only: bool = False,
    ) -> str:
        """Queue an experiment; the run's id. The one gate of all runs: RequestError where it cannot
        run on its target, needs more memory than there is, or is more than `asker` may ask for.

        `compile_only`: nothing is executed; such a run is in no list, and is no answer of `latest`.
        """
        check_runs_here(experiment, self.hardware(), self._store.environment)
        check_asker(self._store, self._settings, asker, experiment)
        run = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(3)}"
        is_first = asker.batch is None or not self._store.has_active(asker.batch)
        self._store.submit(
            run,
            experiment,
            asker.viewer,
            asker.batch,
            compile_only,
            client=self._clients.own,
            lasts=self._serve,
            address=asker.address,
            owner=asker.owner,
            owner_name=asker.who if asker.is_logged_in else None,
        )
        if is_first:
            self._note(asker, "submit", run)
        if not self._serve:  # not before it is stored: it would be taken for one that is over
            with self._guard:
                self._own_runs.add(run)
        self._wake()
        return run

    def status(self, run: str) -> RunStatus:
        """A run's current status; RequestError where there is none of that id."""
        return self._in_words(self._in_progress(run) or self._seen(self._stored(run)))

    def active(self) -> tuple[RunStatus, ...]:
        """Runs in progress or queued, in order, of both lanes."""
        stored = self._store.active()
        seen = [self._in_progress(each.run) or self._seen(each, stored) for each in stored]
        return tuple(self._in_words(status) for status in seen if not status.is_over)

    def result(self, run: str) -> Result | None:
        """The result of a run, with its sentences; None where it has none, or none yet."""
        with self._guard:
            if run in self._results:
                return self._results[run]
        facts = self.facts(run)
        result = facts and in_words(facts)
        if result and not self._unsaved.result(run):
            with self._guard:
                self._results[run] = result
                while len(self._results) > RESULTS_KEPT:
                    del self._results[next(iter(self._results))]
        return result

    def facts(self, run: str) -> Result | None:
        """The result of a run as it is stored, for those who read many and show none."""
        return self._unsaved.result(run) or self._store.result(run)

    def _searchable(self, run: str) -> frozenset[str]:
        """The kinds of collectives that the programs of a run have, and of its verdict; none of what
        cannot be read.
        """
        if run not in self._searched:
            facts = None
            with contextlib.suppress(UnreadableRun):
                facts = self.facts(run)
            if facts is None:
                return frozenset()
            every = (each.collectives or () for each in facts.strategies.values())
            judged = (sharding_verdict(facts) or ())[:1]
            if not judged and facts.comparison and facts.comparison.ratios:
                judged = (short_verdict(facts).lower(),)  # a kind, where it is open
            self._searched[run] = frozenset(
                [*judged, *(one.kind for each in every for one in each)]
            )
        return self._searched[run]

    def latest(self, experiment: Experiment) -> str | None:
        """The newest run of an equal experiment with a complete result; None where there is none."""
        return self._store.latest(experiment.id)

    def succeeded(self) -> frozenset[str]:
        """Ids of the experiments of which a run succeeded: on Recipes, those that were done."""
        return self._store.succeeded()

    def texts(self, run: str, strategy: str) -> dict[str, str]:
        """Program texts of a strategy: program, jaxpr, stablehlo, hlo; empty where none is stored."""
        return self._unsaved.texts(run, strategy) or self._store.texts(run, strategy)

    def every_text(self, run: str) -> dict[str, dict[str, str]]:
        """Program texts of all strategies of a run, by strategy and name."""
        return self._store.every_text(run)

    def text(self, run: str, strategy: str, name: str) -> str | None:
        """One text that a strategy left, such as its timeline; None where it left none."""
        return self._unsaved.texts(run, strategy).get(name) or self._store.text(run, strategy, name)

    def program_texts(self, result: Result) -> dict[str, str]:
        """The text of each strategy's program as it ran; "" where none is stored."""
        return {name: self.text(result.run, name, "program") or "" for name in result.strategies}

    def subject(self, stored: RunSummary) -> Subject:
        """Returns a stored run for a report: its result, and the programs as they ran."""
        result = self.result(stored.run)
        return Subject(stored, result, self.program_texts(result) if result else None)

    def allow(self, asker: Asker, action: str, *subjects: str) -> None:
        """Let somebody do something, and keep who it was; RequestError where they may only look."""
        check_may_act(self._settings, asker)
        for subject in subjects or ("",):
            self._note(asker, action, subject)

    def _note(self, asker: Asker, action: str, subject: str) -> None:
        with contextlib.suppress(StorageError):  # a full disk must not keep runs from deletion
            self._store.note_action(asker.who or asker.viewer or COMMANDS, action, subject)

    def actions(self, limit: int = 100, with_commands: bool = False) -> tuple[Action, ...]:
        """What visitors of the dashboard did, the last first; and the command line, if wanted."""
        return self._store.actions(limit, with_commands)

    def cancel(self, *runs: str, asker: Asker = COMMAND_LINE) -> None:
        """Cancel runs: those that wait at once, and first, so that none of them moves up; else ask
        the worker, and end it if it does not listen. RequestError where `asker` may only look.
        """
        self.allow(asker, "cancel", *runs)
        for run in [run for run in runs if not self._store.cancel_queued(run)]:
            if not self._stored(run).is_over:
                self._store.ask("cancel", run=run)
                self._store.cancel_queued(run)  # where it was put back in the queue meanwhile
        self._wake()

    def cancel_all(self, asker: Asker) -> int:
        """Cancel every run of a viewer that is not over; how many there were."""
        runs = self._store.active_of(asker.viewer)
        if runs:
            self.cancel(*runs, asker=asker)
        return len(runs)

    def active_of_others(self, viewer: str) -> frozenset[str]:
        """Returns the ids of the runs of other viewers that are not over."""
        return self._store.active_of_others(viewer)

    def room(self, viewer: str, address: str | None = None) -> Room:
        """What is taken of what a viewer may take."""
        return room(self._store, self._settings, viewer, address)

    def longest_s(self, experiment: Experiment) -> float:
        """Seconds after which a run of this experiment is ended."""
        also_compiled = self._settings.longest_s(True) if experiment.is_mixed else 0.0
        return self._settings.longest_s(experiment.place.is_absent) + also_compiled

    def last_took_s(self, experiment: Experiment) -> float | None:
        """Seconds that the last run of this kind took; None where there was none."""
        return self._store.last_took_s(experiment)

    def oldest_finished(self, limit: int) -> tuple[str, ...]:
        """Ids of the oldest runs that are over, to be offered for deletion."""
        return self._store.oldest_finished(limit)

    def wait(
        self,
        run: str,
        timeout_s: float | None = None,
        on_change: Callable[[RunStatus], None] | None = None,
    ) -> RunStatus:
        """Wait until a run is over, or for `timeout_s`; its status then.

        `on_change` is called with each new status. StorageError where the data folder fails for
        longer than `write_s`, WorkerError where nothing works the queue any more.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        last = None
        while True:
            supervisor = self._supervisor  # of the moment: it is renewed where it ended
            before = supervisor.in_progress(run)
            status = self.status(run)
            self._check_moves(run)
            if on_change and status != last:
                on_change(status)
            last = status
            if status.is_over or (deadline is not None and time.monotonic() >= deadline):
                return status
            with supervisor.changed:
                if supervisor.in_progress(run) in (None, before):
                    supervisor.changed.wait(POLL_S)

    def _check_moves(self, run: str) -> None:
        """An error where nobody works the queue, or the folder fails for too long."""
        supervisor = self._supervisor
        if not supervisor.is_alive and self._queue_lock.holder() is None:
            raise WorkerError("the thread that works the queue ended, as said above: start again")
        problem = supervisor.problem
        if problem is None or supervisor.in_progress(run):
            self._stuck.pop(run, None)
        elif time.monotonic() - self._stuck.setdefault(run, time.monotonic()) > (
            self._settings.write_s
        ):
            raise StorageError(problem)

    def history(
        self,
        *,
        workload: str | None = None,
        state: str | None = None,
        text: str | None = None,
        zone: str | None = None,
        experiment: Experiment | None = None,
        runs: Sequence[str] = (),
        limit: int = 200,
        over: bool = False,
        searched: bool | None = None,
        alone: bool = False,
        source: str = "imported",
        pinned_first: bool = False,
    ) -> tuple[RunSummary, ...]:
        """Stored runs, newest first: of an `experiment`, or with any of the ids `runs`. `text` is
        looked for in what a row of History shows, moments in the time zone `zone`; `over`: without
        those that wait or run; `searched`: only those of searches, or none; `alone`: none of those
        submitted together; `source`: "here", "imported" (these, too) or "examples" (all).
        """
        summaries = self._store.history(
            workload=workload,
            states=_states(state, over),
            experiment=None if experiment is None else experiment.id,
            runs=runs,
            where=matches(text, zone, self._searchable) if text else None,
            limit=limit,
            searched=searched,
            alone=alone,
            source="examples" if text and asks_for_examples(text) else source,
            pinned_first=pinned_first,
        )
        seen = [
            replace(each, state=self.status(each.run).state) if each.state in ACTIVE else each
            for each in summaries
        ]
        return tuple(summary for summary in seen if state in (None, summary.state))

    def delete(self, runs: Sequence[str], asker: Asker = COMMAND_LINE) -> int:
        """Delete runs that are over, with their results; how many. RequestError where one is not,
        or `asker` is neither its owner nor an admin.
        """
        for run in runs:
            check_may_change(self._store, self._settings, asker, run)
        active = {status.run for status in self.active()}
        for run in runs:
            if run in active:
                raise refuse(f"run {run}", "is not over", "cancel it first")
        for unread in self._store.unread():  # nobody can run them, and cancelling needs no reading
            if unread.run in runs and unread.state == "queued":
                self._store.cancel_queued(unread.run)
        with self._guard:
            for run in runs:
                self._results.pop(run, None)
        count = self._store.delete(runs)
        for run in runs:
            self._note(asker, "delete", run)
        return count

    def unread(self) -> tuple[Unread, ...]:
        """Stored runs that this version cannot read, newest first: they can only be deleted."""
        return self._store.unread()

    # Programs -----------------------------------------------------------------------------------

    def take_program(self, data: bytes, name: str, asker: Asker = COMMAND_LINE) -> Described:
        """Hold a program that `jax.export` wrote. RequestError where it is none, is not allowed, or
        more than `asker` may hand in.
        """
        check_program(self._settings, asker)
        check_may_act(self._settings, asker)
        described = programs.take(data, name, asker.viewer or "", asker.address or "")
        self._note(asker, "program", described.program)
        return described

    def take_declared_programs(self, asker: Asker = COMMAND_LINE) -> tuple[Described, ...]:
        """Hold the steps that the owner's files declare, exported as they are now."""
        self.check_may_run_declared(asker)
        return take_declared()

    def check_may_run_declared(self, asker: Asker = COMMAND_LINE) -> None:
        """Returns where `asker` may have the owner's declared steps run; AccessError elsewhere."""
        check_program(self._settings, asker)
        check_may_act(self._settings, asker)

    def programs(self) -> tuple[Listed, ...]:
        """The programs that are held, the one taken last first."""
        return programs.held()

    def delete_program(self, program: str, asker: Asker = COMMAND_LINE) -> None:
        """Let go of a program; its runs stay. RequestError where `asker` may only look."""
        self.allow(asker, "delete program", program)
        programs.delete(program)

    def what_if(self, before: Experiment, after: Experiment, asker: Asker = COMMAND_LINE) -> WhatIf:
        """Returns what a change of an exported program does to what it requests.

        Raises:
          RequestError: a program is not held, or the compiler refuses it.
          WorkerError: the process that partitions them ended.
        """
        return WhatIf(before, after, (self.partition(before, asker), self.partition(after, asker)))

    def what_if_now(
        self, before: Experiment, after: Experiment, asker: Asker = COMMAND_LINE
    ) -> WhatIf:
        """Returns `what_if` once the compiler has answered; until then propagated shardings alone.

        Raises:
          RequestError, WorkerError: as `what_if`.
        """
        while True:
            compiled, quick = self._partitions(before, after, asker)
            if all(each.done() for each in compiled):
                return self.what_if(before, after, asker)
            # another jaxlib's passes may differ: wait for the compiler then
            if all(each.done() and not each.exception() for each in quick):
                return WhatIf(before, after, (quick[0].result(), quick[1].result()))
            open_ = [each for each in (*compiled, *quick) if not each.done()]
            wait(open_, ASKED_S, FIRST_COMPLETED)

    def what_if_known(
        self, before: Experiment, after: Experiment, asker: Asker = COMMAND_LINE
    ) -> WhatIf | None:
        """Returns `what_if` where the compiler has answered before; None, and nothing is requested, else."""
        self._check_partitions(before, asker)
        was, now = (self._partitioning.known(each, each.strategies[0]) for each in (before, after))
        return WhatIf(before, after, (was, now)) if was and now else None

    def followed(
        self, experiment: Experiment, asker: Asker = COMMAND_LINE
    ) -> Mapping[str, Spec] | None:
        """Returns the spec that each output of an exported program follows by propagation, by path,
        where that has answered before; None, and nothing is requested, else.
        """
        self._check_partitions(experiment, asker)
        known = self._propagating.known(experiment, experiment.strategies[0])
        if not known or known.outputs is None or not experiment.exported:
            return None
        outputs = zip(experiment.exported.described.outputs, known.outputs, strict=True)
        return {leaf.path: spec for leaf, spec in outputs if spec is not None}

    def is_partitioned(
        self, before: Experiment, after: Experiment, asker: Asker = COMMAND_LINE
    ) -> bool:
        """Returns True if the compiler has answered; requests both answers, of a program that is not
        changed the propagated one alone: its process is there for the first change.
        """
        return all(each.done() for each in self._partitions(before, after, asker)[0])

    def as_it_is(self, experiment: Experiment, asker: Asker = COMMAND_LINE) -> WhatIf | None:
        """Returns what an exported program requests as it is, a change of nothing, once the compiler
        has answered; requests the answer, and returns None until then.

        Raises:
          RequestError, WorkerError: as `what_if`.
        """
        self._check_partitions(experiment, asker)
        if not self._partitioning.asked(experiment, experiment.strategies[0]).done():
            return None
        return self.what_if(experiment, experiment, asker)

    def _partitions(
        self, before: Experiment, after: Experiment, asker: Asker
    ) -> list[list[Future[Partitioned]]]:
        """The compiler's answers, where there is a change, and those of propagation alone."""
        self._check_partitions(before, asker)
        compilers = [self._partitioning] if before != after else []
        return [
            [process.asked(each, each.strategies[0]) for each in (before, after)]
            for process in (*compilers, self._propagating)
        ]

    def partition(self, experiment: Experiment, asker: Asker = COMMAND_LINE) -> Partitioned:
        """Returns what the compiler makes of the first strategy's program, without its code.

        Raises:
          RequestError: a program is not held, or the compiler refuses it.
          WorkerError: the process that partitions it ended.
        """
        self._check_partitions(experiment, asker)
        return self._partitioning.ask(experiment, experiment.strategies[0])

    def _check_partitions(self, experiment: Experiment, asker: Asker) -> None:
        if experiment.exported:
            check_program(self._settings, asker)
        check_may_act(self._settings, asker)

    # Devices ------------------------------------------------------------------------------------

    def hardware(self) -> Hardware:
        """What this machine is, without jax."""
        now = time.monotonic()
        if self._hardware is None or now - self._hardware[0] > HARDWARE_S:
            self._hardware = (now, read_hardware())
        return self._hardware[1]

    def devices(self, target: str) -> Environment | None:
        """The last device report of a target; None where there is none."""
        return self._store.environment(target)

    def devices_seen_at(self, target: str) -> float | None:
        """When that report was made; None where there is none."""
        return self._store.environment_seen_at(target)

    def probe(
        self, target: str, timeout_s: float = 60.0, asker: Asker = COMMAND_LINE
    ) -> Environment:
        """Request a target's device report, and wait. WorkerError where none comes."""
        self.allow(asker, "probe", target)
        if parse_target(target).is_cluster:
            self._settings.scheduler_of(target)
        return answered(self._store, self._supervisor, self._ask_probe(target), target, timeout_s)

    def release(self, asker: Asker = COMMAND_LINE) -> None:
        """Let go of the devices: at once where they are idle, else after the current run."""
        self.allow(asker, "release")
        self._store.ask("release")
        self._wake()

    @property
    def _unsaved(self) -> UnsavedRuns:
        return self._supervisor.unsaved

    @property
    def worker_pid(self) -> int | None:
        """The worker process that holds the devices, where this process has started one."""
        worker = self._supervisor.lanes[TIMING].worker
        return worker and worker.pid  # pyrefly: ignore[bad-return]

    @property
    def compiler_pid(self) -> int | None:
        """The worker process that compiles for absent devices, where this process has one."""
        worker = self._supervisor.lanes[COMPILING].worker
        return worker and worker.pid  # pyrefly: ignore[bad-return]

    @property
    def queue_holder(self) -> int | None:
        """Pid of the process that works the queue; None where nobody does."""
        return self._queue_lock.holder()

    @property
    def readable_by_others(self) -> str | None:
        """Why other users of this machine can read what is stored; None where they cannot."""
        return self._store.readable_by_others()

    @property
    def problem(self) -> str | None:
        """Why the queue is stopped, in a sentence; None where it is not."""
        return self._supervisor.problem

    # Inside -------------------------------------------------------------------------------------

    def _ask_probe(self, target: str) -> int:
        number = self._store.ask("probe", target=parse_target(target).text)
        if not self._serve:
            with self._guard:
                self._own_requests.add(number)
        self._wake()
        return number

    def _in_progress(self, run: str) -> RunStatus | None:
        return self._supervisor.in_progress(run) or self._unsaved.status(run)

    def _seen(self, status: RunStatus, in_progress: Sequence[RunStatus] | None = None) -> RunStatus:
        """A stored status as the lock corrects it; `in_progress` where it was read already."""
        read = self._store.in_progress if in_progress is None else lambda: in_progress
        locks = self._queue_lock, self._clients
        return as_seen(status, *locks, self._stored, read, self._supervisor.problem)

    def _in_words(self, status: RunStatus) -> RunStatus:
        """With what it waits for, and what is timed meanwhile, in words, as the screens name it."""
        paused_for = status.paused_for and self._called(status.paused_for)
        waiting_for = waiting_words(status, self._called)
        return replace(status, paused_for=paused_for, waiting_for=waiting_for)

    def _called(self, run: str) -> str:
        status = self._store.status(run)
        return experiment_words(status.experiment) if status else run

    def _stored(self, run: str) -> RunStatus:
        status = self._store.status(run)
        if status is None:
            raise refuse(f"run {shorten(run)}", "is not stored here", "look it up in the history")
        return status

    def _is_wanted(self) -> bool:
        if self._serve:
            return True
        with self._guard:
            runs, requests = set(self._own_runs), set(self._own_requests)
        if not runs and not requests:
            return False
        open_runs = runs & {status.run for status in self._store.active()}
        open_requests = requests & {request.id for request in self._store.requests()}
        with self._guard:
            self._own_runs -= runs - open_runs
            self._own_requests -= requests - open_requests
        return bool(open_runs or open_requests)

    def _wake(self) -> None:
        with self._guard:
            if not self._supervisor.is_alive:
                self._supervisor = self._new_supervisor()
        self._supervisor.wake()

    def _new_supervisor(self) -> Supervisor:
        more = cluster_lanes if self._settings.dask else helping_lanes
        return Supervisor(
            self._store, self._queue_lock, self._clients, self._settings, self._is_wanted, more
        )


def _states(state: str | None, over: bool) -> tuple[str, ...]:
    """Returns the stored states of runs that are listed under one, or that are over; () of any."""
    if state == "interrupted":
        return (state, *ACTIVE)  # where nobody works the queue
    if state:
        return (state,)
    return tuple(TERMINAL) if over else ()

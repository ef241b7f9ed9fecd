"""Partitions programs without making code of them: a process for each program, kept warm."""

import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf

from spmd_core.base import (
    LabError,
    RequestError,
    WorkerError,
    descriptors,
    resident_bytes,
    waited_s,
)
from spmd_core.experiment import Experiment
from spmd_core.lab.supervisor.environment import without_secrets, worker_environment
from spmd_core.lab.supervisor.process import Child, ending_text
from spmd_core.machine import Hardware
from spmd_core.runs import PARTITIONED, Failed, PartitionCommand, Partitioned

MOST_WARM = 2  # processes, about 250 MB each
IDLE_S = 300.0
MOST_S = 120.0  # of the clock for one answer, but for those without a free core
MOST_BYTES = 4 * 2**30  # of memory that a process may hold
MOST_KEPT = 64  # answers
LOOK_S = 0.05
STALE_S = 2.0  # without a request, after which a question gives way: pages poll twice a second
_MODULE = "spmd_core.worker.partitioning"
Warm = Child[Partitioned | Failed]


@dataclass
class _Question:
    """A program to partition; `asked_at`: time of the last request, inf while a caller waits."""

    experiment: Experiment
    strategy: str
    asked_at: float = 0.0
    answer: Future[Partitioned] = field(default_factory=Future)


class Partitioning:
    """Queries the processes from one thread, since on Linux a child dies with the thread that
    started it.
    """

    def __init__(self, hardware: Callable[[], Hardware], is_quick: bool = False) -> None:
        self._hardware, self._is_quick = hardware, is_quick
        # newest first: older questions are often about fields that have changed since
        self._asked: queue.LifoQueue[_Question | None] = queue.LifoQueue()
        self._warm: OrderedDict[object, tuple[Warm, float]] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], _Question] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._guard, self._is_closed = threading.Lock(), threading.Event()

    def ask(self, experiment: Experiment, strategy: str) -> Partitioned:
        """Returns the collectives that a program requests; where `is_quick`, its propagated shardings.

        Raises:
          RequestError: the compiler refuses it.
          WorkerError: the process that does it ended.
        """
        try:
            return self.asked(experiment, strategy, waits=True).result()
        except LabError:
            with self._guard:
                self._known.pop((experiment.id, strategy), None)
            raise

    def asked(
        self, experiment: Experiment, strategy: str, waits: bool = False
    ) -> Future[Partitioned]:
        """Returns the answer, which may be there later. It is cancelled where newer questions wait
        and nothing requests this one any more, unless the caller `waits`.
        """
        key = experiment.id, strategy
        with self._guard:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="spmd-lab-partitioning", daemon=True
                )
                self._thread.start()
            if (question := self._known.get(key)) is None:
                question = self._known[key] = _Question(experiment, strategy)
                self._asked.put(question)
            question.asked_at = inf if waits else max(question.asked_at, time.monotonic())
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
            return question.answer

    def known(self, experiment: Experiment, strategy: str) -> Partitioned | None:
        """Returns the answer where it is there; requests none."""
        with self._guard:
            question = self._known.get((experiment.id, strategy))
        answer = question.answer if question else None
        is_there = answer is not None and answer.done() and not answer.cancelled()
        return answer.result() if answer and is_there and not answer.exception() else None

    def close(self) -> None:
        """End the processes."""
        if self._thread is not None:
            self._is_closed.set()
            self._asked.put(None)
            self._thread.join()

    def _work(self) -> None:
        while True:
            try:
                asked = self._asked.get(timeout=IDLE_S / 4)
            except queue.Empty:
                self._let_go(lambda since: time.monotonic() - since > IDLE_S)
                continue
            if asked is None:
                self._let_go(lambda since: True)
                return
            if self._is_dropped(asked):
                continue
            try:
                asked.answer.set_result(self._answer(asked))
            except Exception as error:  # the caller gets it
                if not asked.answer.cancelled():
                    asked.answer.set_exception(error)

    def _is_dropped(self, question: _Question) -> bool:
        """Cancels a question that others wait behind, once nothing requests it; True if it did."""
        with self._guard:
            if self._asked.empty() or time.monotonic() - question.asked_at < STALE_S:
                return False
            self._known.pop((question.experiment.id, question.strategy), None)
            return question.answer.cancel()

    def _answer(self, question: _Question) -> Partitioned:
        experiment = question.experiment
        program = experiment.exported and experiment.exported.described.program
        key = program, self._target(experiment)  # a program handed in meets no other
        child, _ = self._warm.pop(key, (None, 0.0))
        if child is not None and child.is_gone():
            _end(child)
            child = None
        if child is None:
            inherited = without_secrets(os.environ)
            environ = worker_environment(self._target(experiment), self._hardware(), inherited)
            child = Child(_MODULE, [], environ, PARTITIONED)
        child.send(
            PartitionCommand(
                experiment=experiment, strategy=question.strategy, is_quick=self._is_quick
            )
        )
        event = _received(child, lambda: self._is_closed.is_set() or self._is_dropped(question))
        self._warm[key] = child, time.monotonic()
        while len(self._warm) > MOST_WARM:
            _end(self._warm.popitem(last=False)[1][0])
        if isinstance(event, Failed):
            kind = RequestError if event.error.kind == "RequestError" else WorkerError
            raise kind(event.error.message)
        return event

    def _target(self, experiment: Experiment) -> str:
        """The devices that a process compiles for: of attached ones as many simulated."""
        is_absent = experiment.place.is_absent and not self._is_quick
        return experiment.target if is_absent else f"cpu:{experiment.device_count}"

    def _let_go(self, is_over: Callable[[float], bool]) -> None:
        for key, (child, since) in list(self._warm.items()):
            if is_over(since):
                del self._warm[key]
                _end(child)


def _received(child: Warm, is_over: Callable[[], bool]) -> Partitioned | Failed:
    """The answer of a process, which is ended if it gives none, or once none is wanted."""
    until = time.monotonic() - waited_s(child.pid) + MOST_S
    why = f"took more than {MOST_S:g} s"
    with suppress(WorkerError):  # junk in the stream
        while (
            time.monotonic() - waited_s(child.pid) < until and not child.is_broken and not is_over()
        ):
            descriptors.readable([child], LOOK_S)
            if events := child.receive():
                return events[0]
            if resident_bytes(child.pid) > MOST_BYTES:
                why = f"took more than {MOST_BYTES} bytes of memory"
                break
    if child.is_broken:
        why = ending_text(child.reap())
    _end(child)
    raise WorkerError(f"the process that partitions the program {why}: compile it instead")


def _end(child: Warm) -> None:
    child.stop(0.0)
    child.close()

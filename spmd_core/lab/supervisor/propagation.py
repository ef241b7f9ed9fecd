"""Answers what programs request by propagation alone: a process for each program, kept warm."""

import os
import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from spmd_core.base import RequestError, WorkerError, descriptors, resident_bytes
from spmd_core.experiment import Experiment
from spmd_core.lab.supervisor.environment import without_secrets, worker_environment
from spmd_core.lab.supervisor.process import Child, ending_text
from spmd_core.machine import Hardware
from spmd_core.results import PROPAGATED, Failed, PropagateCommand, Propagated

MOST_WARM = 2  # processes, about 250 MB each
IDLE_S = 300.0
MOST_S = 120.0  # of the clock, for one answer
MOST_BYTES = 4 * 2**30  # of memory that a process may hold
MOST_KEPT = 64  # answers
LOOK_S = 0.05
_MODULE = "spmd_core.worker.propagating"
Warm = Child[Propagated | Failed]


class Propagation:
    """Queries the processes from one thread, since on Linux a child dies with the thread that
    started it.
    """

    def __init__(self, hardware: Callable[[], Hardware]) -> None:
        self._hardware = hardware
        self._asked: queue.Queue[tuple[Experiment, str, Future[Propagated]] | None] = queue.Queue()
        self._warm: OrderedDict[object, tuple[Warm, float]] = OrderedDict()
        self._known: OrderedDict[tuple[str, str], Propagated] = OrderedDict()
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()

    def ask(self, experiment: Experiment, strategy: str) -> Propagated:
        """Returns the collectives that a program requests.

        Raises:
          RequestError: its shardings cannot be propagated without a compile.
          WorkerError: the process that does it ended.
        """
        key = experiment.id, strategy
        if (known := self._known.get(key)) is None:
            with self._guard:
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._work, name="spmd-lab-propagation", daemon=True
                    )
                    self._thread.start()
            answer: Future[Propagated] = Future()
            self._asked.put((experiment, strategy, answer))
            known = self._known[key] = answer.result()
            while len(self._known) > MOST_KEPT:
                self._known.popitem(last=False)
        return known

    def close(self) -> None:
        """End the processes."""
        if self._thread is not None:
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
            experiment, strategy, answer = asked
            try:
                answer.set_result(self._answer(experiment, strategy))
            except Exception as error:  # the caller gets it
                answer.set_exception(error)

    def _answer(self, experiment: Experiment, strategy: str) -> Propagated:
        key = _key(experiment)
        child, _ = self._warm.pop(key, (None, 0.0))
        if child is not None and child.is_gone():
            _end(child)
            child = None
        if child is None:
            count = 1 if experiment.exported else experiment.device_count
            inherited = without_secrets(os.environ)
            environ = worker_environment(f"cpu:{count}", self._hardware(), inherited)
            child = Child(_MODULE, [], environ, PROPAGATED)
        child.send(PropagateCommand(experiment=experiment, strategy=strategy))
        event = _received(child)
        self._warm[key] = child, time.monotonic()
        while len(self._warm) > MOST_WARM:
            _end(self._warm.popitem(last=False)[1][0])
        if isinstance(event, Failed):
            kind = RequestError if event.error.kind == "RequestError" else WorkerError
            raise kind(event.error.message)
        return event

    def _let_go(self, is_over: Callable[[float], bool]) -> None:
        for key, (child, since) in list(self._warm.items()):
            if is_over(since):
                del self._warm[key]
                _end(child)


def _key(experiment: Experiment) -> object:
    """Experiments whose answers come from one process: a program handed in meets no other."""
    program = experiment.exported
    return program.described.program if program else experiment.device_count


def _received(child: Warm) -> Propagated | Failed:
    """The answer of a process, which is ended if it gives none."""
    until = time.monotonic() + MOST_S
    why = f"took more than {MOST_S:g} s"
    with suppress(WorkerError):  # junk in the stream
        while time.monotonic() < until and not child.is_broken:
            descriptors.readable([child], LOOK_S)
            if events := child.receive():
                return events[0]
            if resident_bytes(child.pid) > MOST_BYTES:
                why = f"took more than {MOST_BYTES} bytes of memory"
                break
    if child.is_broken:
        why = ending_text(child.reap())
    _end(child)
    raise WorkerError(f"the process that propagates shardings {why}: compile the program instead")


def _end(child: Warm) -> None:
    child.stop(0.0)
    child.close()

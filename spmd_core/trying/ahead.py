"""Candidates for absent devices, compiled ahead of being judged: several at a time, in one batch."""

import contextlib
from collections import deque
from collections.abc import Callable, Iterable

from spmd_core.errors import RequestError
from spmd_core.experiment.experiment import Experiment
from spmd_core.results.result import Result
from spmd_core.searching.pool import Pool


class Ahead:
    """Experiments in the order in which their results are asked for; the next ones are begun
    meanwhile, up to one whose result `is_known`: it may be the last that is looked at. `stop` says
    whether nobody wants them any more.
    """

    def __init__(self, pool: Pool, experiments: Iterable[Experiment],
                 is_known: Callable[[Experiment], bool], stop: Callable[[], bool]):
        self._pool, self._is_known, self._stop = pool, is_known, stop
        self._next = deque({each.id: each for each in experiments}.values())
        self._found: dict[str, Result | None] = {}

    def result(self, experiment: Experiment) -> Result | None:
        """The result of the next one that is not known; None where it cannot be compiled, or nobody wants it any more.
        WorkerError where the cluster that is to compile it does not.
        """
        while self._next and self._next[0] != experiment and self._is_known(self._next[0]):
            self._next.popleft()
        while experiment.id not in self._found and not self._stop():
            self._begin()
            if self._pool.is_idle:  # it was known a moment ago, and deleted since
                break
            for name, found in self._pool.finished():
                self._found[name] = None if isinstance(found, str) else found
        return self._found.get(experiment.id)

    def drop(self) -> None:
        """Cancel what was begun and is not needed."""
        self._next.clear()
        self._pool.cancel()

    def _begin(self) -> None:
        while self._next and self._pool.has_room and not self._is_known(self._next[0]):
            experiment = self._next.popleft()
            with contextlib.suppress(RequestError):
                self._pool.submit(experiment, experiment.id)
                continue
            self._found[experiment.id] = None

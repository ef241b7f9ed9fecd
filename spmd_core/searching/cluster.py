"""Compiles on other machines: a search's candidates as tasks of a Dask cluster."""

import json
import time
from collections.abc import Iterator
from typing import Any

from spmd_core.errors import WorkerError, shorten
from spmd_core.experiment.experiment import Experiment
from spmd_core.results.result import Result
from spmd_core.searching import remote

CONNECT_S = 10.0
AHEAD = 2  # tasks per worker, so that none waits for the next
RETRIES = 1  # of a task that failed by itself; one whose worker died goes to another worker
_GONE_S = 20.0  # without a word from the scheduler: it is gone
_WAIT_S = 0.3
_ENDED = ("finished", "error", "cancelled")  # states of a task


class Cluster:
    """A Dask cluster that answers, and the tasks of one search that are on it.

    TLS and the like are as Dask's own configuration files say. WorkerError where it does not
    answer, has no workers, or runs other versions.
    """

    keeps = False  # results are not stored here

    def __init__(self, address: str):
        from distributed import Client

        self.address, self._tasks = address, {}
        try:
            self._client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            raise WorkerError(
                f"the Dask scheduler {shorten(address)} does not answer ({_words(error)}): start "
                "it, or correct SPMD_LAB_DASK") from None
        try:
            self.workers = self._check()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Forget the tasks and let go of the cluster."""
        for future in list(self._tasks):
            future.cancel()
        self._tasks.clear()
        self._client.close(timeout=2)

    @property
    def has_room(self) -> bool:
        """Whether another task would be begun soon."""
        return len(self._tasks) < AHEAD * max(1, self.workers)

    @property
    def is_idle(self) -> bool:
        """Whether no task is left."""
        return not self._tasks

    def submit(self, experiment: Experiment, timeout_s: float, what: Any) -> None:
        """Have it compiled; `what` comes back with the result."""
        spec = json.dumps(experiment.to_json(), separators=(",", ":"))
        future = self._client.submit(remote.compiled, spec, timeout_s, pure=False, retries=RETRIES)
        self._tasks[future] = what

    def finished(self) -> Iterator[tuple[Any, Result | str]]:
        """Tasks that ended since, after a moment of waiting: a result, or why there is none.
        WorkerError where the scheduler is gone.
        """
        self._check_scheduler()
        # what was done and lost with its worker is computed again: it has not ended
        done = [future for future in self._tasks if future.status in _ENDED]
        if not done:
            time.sleep(_WAIT_S)
        for future in done:
            yield self._tasks.pop(future), _outcome(future)

    def _check(self) -> int:
        """How many workers there are; WorkerError where one could not compile as this one would."""
        deadline = time.monotonic() + CONNECT_S
        while not (workers := self._client.scheduler_info(n_workers=-1)["workers"]):
            if time.monotonic() > deadline:
                raise WorkerError(f"the Dask scheduler {shorten(self.address)} has no workers: "
                                  "start some, as docs/cluster.md says")
            time.sleep(_WAIT_S)
        here = remote.versions_here()
        try:
            found: Any = self._client.run(remote.versions_here)
        except Exception as error:  # whatever a worker of another installation raises, in its words
            raise WorkerError(f"a Dask worker of {shorten(self.address)} cannot run SPMD Lab "
                              f"({_words(error)}): start workers in its folder, with its Python"
                              ) from None
        for worker, theirs in found.items():
            if theirs != here:
                raise WorkerError(f"the Dask worker {shorten(worker)} runs other versions "
                                  f"({_differing(theirs, here)}): use the same ones")
        return len(workers)

    def _check_scheduler(self) -> None:
        if self._client.status != "running":
            deadline = time.monotonic() + _GONE_S
            while self._client.status != "running":
                if self._client.status == "closed" or time.monotonic() > deadline:
                    raise WorkerError(
                        f"the Dask scheduler {shorten(self.address)} is gone: start it again and "
                        "search on, which goes on from here")
                time.sleep(_WAIT_S)


def _outcome(future: Any) -> Result | str:
    if future.status != "finished":
        error = future.exception() if future.status == "error" else None
        if type(error).__name__ == "KilledWorker":
            return "every worker that compiled it died"
        return f"its task was {future.status}" + (f": {_words(error)}" if error else "")
    found = json.loads(future.result())
    return Result.model_validate(found["result"]) if "result" in found else str(found["error"])


def _differing(theirs: str, here: str) -> str:
    mine, other = json.loads(here), json.loads(theirs)
    return ", ".join(f"{name} {other.get(name)} beside {mine.get(name)} here"
                     for name in sorted({*mine, *other}) if mine.get(name) != other.get(name))


def _words(error: BaseException) -> str:
    return " ".join(str(error).split())[:200] or type(error).__name__

"""The connection to a Dask cluster: made once a run waits for it, looked after, and made again."""

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from spmd_core.base import WorkerError, shorten
from spmd_core.experiment import Experiment
from spmd_core.lab.cluster import remote
from spmd_core.lab.cluster.task import Task, words

CONNECT_S = 10.0
GONE_S = 20.0  # a cluster that was there may be away for so long
AHEAD = 2  # tasks for each worker, so that none waits for the next
RETRIES = 1  # of a task that failed by itself; one whose worker died goes to another worker
_LOOK_S, _CLOSE_S = 2.0, 3.0


class Connection:
    """A Dask cluster as the lanes of this process share it, with a thread of its own. Every method
    may be called from any thread.

    `users`: how many share it. `tell` hears why it cannot be used and since when that was tried (seconds since the epoch), and
    None once it can. TLS and the like are as Dask's own configuration files say.
    """

    def __init__(self, address: str, tell: Callable[[str | None, float], None], users: int = 1):
        self.problem: str | None = None  # why it cannot be used, after a last try
        self.room = 0  # tasks that it takes at once
        self._address, self._tell, self._users = address, tell, users
        self._client: Any = None
        self._topic = f"spmd-lab-{secrets.token_hex(8)}"
        self._known: set[str] = set()  # workers whose versions are ours
        self._tasks: dict[str, Task] = {}  # by run, to hand on what is said of them
        self._was_there, self._away_since = False, 0.0
        self._wanted, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._keep, name="spmd-lab-dask", daemon=True)
        self._thread.start()

    @property
    def is_there(self) -> bool:
        """Whether it takes tasks now."""
        return self.room > 0

    def want(self) -> None:
        """Something waits for it: have it tried."""
        self._wanted.set()

    def submit(self, run: str, experiment: Experiment, timeout_s: float) -> Task | None:
        """Have a run compiled; None where the cluster is away just now."""
        client = self._client
        if client is None or client.status != "running" or not self.is_there:
            self.want()
            return None
        spec = json.dumps(experiment.to_json(), separators=(",", ":"))
        try:
            future = client.submit(
                remote.compiled,
                run,
                spec,
                timeout_s,
                self._topic,
                pure=False,
                retries=RETRIES,
                key=f"{run}-{secrets.token_hex(4)}",
            )
        except Exception:  # whatever a client says that is closing by now
            self.want()
            return None
        task = self._tasks[run] = Task(future, lambda: self._client is client)
        return task

    def forget(self, run: str) -> None:
        """A run is over, or given up: its task is cancelled, and ends where it is at work."""
        if task := self._tasks.pop(run, None):
            task.cancel()

    def leave(self) -> None:
        """One of those that share it ends; with the last one it is closed. One after another."""
        self._users -= 1
        if self._users == 0:
            self._closing.set()
            self._wanted.set()
            # one that is only being made is not waited for: its thread closes it
            self._thread.join(timeout=_CLOSE_S if self._client else 0.0)

    # The thread
    # ----------------------------------------------------------------------------------------------

    def _keep(self) -> None:
        while not self._closing.is_set():
            self._wanted.wait(None if self._client is None else _LOOK_S)
            self._wanted.clear()
            if not self._closing.is_set() and not self._look():
                self._closing.wait(_LOOK_S / 4)
        self._drop()

    def _look(self) -> bool:
        """Connect where that is needed, and see who is there; whether it can be used."""
        begun, since = time.time(), time.monotonic()
        try:
            if self._client is not None and self._client.status != "running":
                self._drop()
            if self._client is None:
                self._connect()
            workers = self._checked_workers()
        except _Away as away:
            self.room, self._away_since = 0, self._away_since or since
            if away.is_certain or time.monotonic() - self._away_since >= GONE_S:
                self._say(str(away), begun)
            return False
        self._was_there, self._away_since = True, 0.0
        self._say(None, begun)  # before anything is taken, which a problem would put back
        self.room = AHEAD * workers
        return True

    def _say(self, problem: str | None, begun: float) -> None:
        had, self.problem = self.problem, problem
        if problem or had:
            self._tell(problem, begun)

    def _connect(self) -> None:
        from distributed import Client

        # what it logs is told in a sentence
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        try:
            client = Client(self._address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, TimeoutError, ValueError) as error:
            if self._was_there:
                raise _Away(
                    f"the Dask scheduler {shorten(self._address)} is gone: start it again",
                    is_certain=False,
                ) from None
            raise _Away(
                f"the Dask scheduler {shorten(self._address)} does not answer "
                f"({words(error)}): start it, or correct SPMD_LAB_DASK"
            ) from None
        client.subscribe_topic(self._topic, self._heard)
        self._known.clear()
        self._client, self._away_since = client, 0.0  # its workers have a while to come back too

    def _checked_workers(self) -> int:
        """How many workers there are; _Away where there is none, or one that could not compile as
        this process would.
        """
        try:
            workers = set(self._client.scheduler_info(n_workers=-1).get("workers", ()))
            new = sorted(workers - self._known)
            found: Any = self._client.run(remote.versions_here, workers=new) if new else {}
        except OSError:  # the scheduler or a worker went just now: the next look says which
            raise _Away(
                f"the Dask scheduler {shorten(self._address)} is gone: start it again",
                is_certain=False,
            ) from None
        except Exception as error:  # whatever a worker of another installation raises, in its words
            raise _Away(
                f"a Dask worker of {shorten(self._address)} cannot run SPMD Lab "
                f"({words(error)}): start workers in its folder, with its Python"
            ) from None
        here = remote.versions_here()
        for worker, theirs in found.items():
            if theirs != here:
                raise _Away(
                    f"the Dask worker {shorten(worker)} runs other versions "
                    f"({differing(theirs, here)}): use the same ones"
                )
        self._known = workers
        if not workers:
            raise _Away(
                f"the Dask scheduler {shorten(self._address)} has no workers: start some, "
                "as docs/cluster.md says",
                is_certain=False,
            )
        return len(workers)

    def _heard(self, event: tuple[float, dict[str, Any]]) -> None:
        if task := self._tasks.get(event[1]["run"]):
            task.heard(event[1].get("phase"), event[1].get("strategy"))

    def _drop(self) -> None:
        client, self._client, self.room = self._client, None, 0
        if client is not None:
            try:
                client.close(timeout=_LOOK_S)
            except (OSError, TimeoutError):
                return  # it was gone already


class _Away(WorkerError):
    """Why the cluster cannot be used now. `is_certain`: waiting a little would not help."""

    def __init__(self, sentence: str, is_certain: bool = True):
        super().__init__(sentence)
        self.is_certain = is_certain


def differing(theirs: str, here: str) -> str:
    """Which versions differ, both as JSON: `jax 0.12 beside 0.10 here`."""
    mine, other = json.loads(here), json.loads(theirs)
    return ", ".join(
        f"{name} {other.get(name)} beside {mine.get(name)} here"
        for name in sorted({*mine, *other})
        if mine.get(name) != other.get(name)
    )

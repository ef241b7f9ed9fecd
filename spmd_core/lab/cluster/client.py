"""The Dask client, in the process that `spmd_core.lab.cluster.__main__` is: what comes from a
scheduler is unpickled here, beside nothing of the lab's.
"""

import asyncio
import secrets
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from distributed.scheduler import KilledWorker
from pydantic import BaseModel, ValidationError

from spmd_core.base import unhindered
from spmd_core.lab.cluster import remote
from spmd_core.lab.cluster.connection import AGAIN_S, Away, Connection, quietly, words
from spmd_core.lab.cluster.messages import Doing, Ended, Lost, Reach, Submit

AHEAD = 2  # tasks for each worker, so that none waits for the next
RETRIES = 1  # of a task that failed by itself; one whose worker died goes to another worker
MOST_BYTES = 100 * 2**20  # of a result as JSON: quoted it still fits on a line of the protocol
_LOOK_S = 1.0  # between two looks at a cluster that is there


class DaskClient(Connection):
    """A connection to a cluster, made again where it is lost. `emit` sends an event to the lab;
    `files` are the CA, the certificate and the key of a `tls://` address.
    """

    def __init__(self, address: str, files: tuple[str, ...], emit: Callable[[BaseModel], None]):
        super().__init__(address, files)
        self._emit = emit
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by run, those that await its future

    async def keep(self) -> None:
        """Look after the connection, and report its state."""
        while True:
            begun, room, problem = time.time(), 0, None
            try:
                room = AHEAD * len(await self._workers())
                self._was_there, self._away_since = True, unhindered()
            except Away as away:
                if away.is_certain or self._left_s() <= 0:
                    problem = str(away)
            self._emit(Reach(room=room, problem=problem, begun=begun))
            await asyncio.sleep(_LOOK_S if room or problem else AGAIN_S)

    def submit(self, asked: Submit) -> None:
        """Have a run compiled; it is lost where the cluster is away just now."""
        self.forget(asked.run)
        try:
            future = self._client.submit(
                remote.compiled,
                asked.run,
                asked.spec,
                asked.timeout_s,
                self._topic,
                pure=False,
                retries=RETRIES,
                key=f"{asked.run}-{secrets.token_hex(4)}",
            )
        except Exception:  # no client, or whatever one raises that is closing by now
            self._emit(Lost(run=asked.run))
            return
        self._tasks[asked.run] = asyncio.create_task(self._follow(asked.run, future))

    def forget(self, run: str) -> None:
        """Nobody waits for a run any more: a worker that is at it ends it."""
        if task := self._tasks.pop(run, None):
            task.cancel()

    async def _follow(self, run: str, future: Any) -> None:
        """Report how a run ended. What was done and went with its worker is compiled again by then."""
        try:
            error = await future.exception()
            if error is None:
                ended = Ended(run=run, compiled=inflated(await future))
            else:
                ended = Ended(run=run, problem=failed_words(error))
        except asyncio.CancelledError:
            await quietly(future.cancel())
            raise
        except Exception as error:  # whatever a worker's bytes lead to
            ended = Ended(run=run, problem=unread_words(error))
        self._tasks.pop(run, None)
        self._emit(Lost(run=run) if future.status in ("cancelled", "lost") else ended)

    def _heard(self, event: Any) -> None:
        with suppress(ValidationError, TypeError, KeyError, IndexError):
            given = event[1]  # Dask adds a key
            doing = Doing(run=given["run"], phase=given["phase"], strategy=given["strategy"])
            if doing.run in self._tasks:
                self._emit(doing)

    async def _drop(self) -> None:
        for run in tuple(self._tasks):
            self.forget(run)
            self._emit(Lost(run=run))
        await super()._drop()


def inflated(data: bytes) -> str:
    """The JSON that a worker deflated; ValueError where it is larger than MOST_BYTES."""
    reader = zlib.decompressobj()
    text = reader.decompress(data, MOST_BYTES)
    if not reader.eof:
        raise ValueError(f"more than {MOST_BYTES} bytes, or broken off")
    return text.decode()


def failed_words(error: Any) -> str:
    """Why a task failed, from what its worker or the scheduler raised."""
    if isinstance(error, KilledWorker):
        most = error.allowed_failures  # of Dask's configuration
        return f"{most + 1} Dask workers died while they compiled it: see their logs"
    return f"its task failed: {words(error, 300)}"


def unread_words(error: BaseException) -> str:
    """Why a result could not be read."""
    return (
        f"what a Dask worker sent cannot be read ({type(error).__name__[:60]}): start workers of "
        "the same version"
    )

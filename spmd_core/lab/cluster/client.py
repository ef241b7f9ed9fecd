"""The Dask client, in the process that `spmd_core.lab.cluster.__main__` is: what comes from a
scheduler is unpickled here, beside nothing of the lab's.
"""

import asyncio
import secrets
import time
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from distributed.scheduler import KilledWorker
from pydantic import BaseModel, ValidationError

from spmd_core.base import shorten, unhindered
from spmd_core.lab.cluster import remote
from spmd_core.lab.cluster.connection import (
    AGAIN_S,
    Away,
    Connection,
    Unfit,
    answered,
    quietly,
    words,
)
from spmd_core.lab.cluster.messages import Doing, Ended, Lost, Reach, Submit

AHEAD = 2  # tasks for each worker, so that none waits for the next
RETRIES = 1  # of a task that failed by itself; one whose worker died goes to another worker
MOST_BYTES = 100 * 2**20  # of a result as JSON: quoted it still fits on a line of the protocol
MOST_REFUSED = 3  # workers whose answers for one run cannot be read: then the run is the cause
MOST_DEATHS = 3  # of workers that one run may cost, as Dask's `allowed-failures`
DIED = f"{MOST_DEATHS + 1} Dask workers died while they compiled it: see their logs"
HUNG_S = 20.0  # without a sign of life; a worker of a thousand sends one every 11 s
_LOOK_S = 1.0  # between two looks at a cluster that is there


class LeftOut(NamedTuple):
    """Why a worker gets no task: how it failed, and the run for which it did so: "" where it is unfit
    for any, None where it hangs.
    """

    how: str
    run: str | None


class DaskClient(Connection):
    """A connection to a cluster, made again where it is lost. `emit` sends an event to the lab;
    `files` are the CA, the certificate and the key of a `tls://` address.
    """

    def __init__(self, address: str, files: tuple[str, ...], emit: Callable[[BaseModel], None]):
        super().__init__(address, files)
        self._emit = emit
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by run, those that await its future
        self._placed = dict[str, str]()  # by run, the worker that has its task
        self._refused = dict[str, set[str]]()  # by run, workers whose answers cannot be read
        self._left_out = dict[str, LeftOut]()  # by worker
        self._ended = set[str]()  # workers that ended with tasks, which others have now
        self._deaths = Counter[str]()  # of workers, by the run that each had
        self._signs = dict[str, tuple[object, float]]()  # by worker, the last of life, and when

    async def keep(self) -> None:
        """Look after the connection, and report its state."""
        while True:
            begun, reach = time.time(), None
            try:
                await self._workers()
                self._was_there, self._away_since = True, unhindered()
                # runs of workers that ended with tasks are lost; one that many did not survive ended
                for run in [each for each in self._tasks if self._placed[each] not in self._known]:
                    self._died(run)
                self._look_for_signs()
                reach = self._reach(begun)
            except Away as away:
                is_long = away.is_certain or self._left_s() <= 0
                reach = Reach(room=0, problem=str(away) if is_long else None, begun=begun)
            self._emit(reach)
            await asyncio.sleep(_LOOK_S if reach.room or reach.problem else AGAIN_S)

    def submit(self, asked: Submit) -> None:
        """Have a run compiled; it is lost where the cluster is away just now."""
        self._withdraw(asked.run)
        try:
            counts, free = Counter(self._placed.values()), self._known - self._left_out.keys()
            worker = self._placed[asked.run] = min(free, key=lambda each: counts[each])
            future = self._client.submit(
                remote.compiled,
                asked.run,
                asked.spec,
                asked.timeout_s,
                self._topic,
                pure=False,
                retries=RETRIES,
                workers=[worker],  # alone, so that its answer has a name
                allow_other_workers=False,
                key=f"{asked.run}-{secrets.token_hex(4)}",
            )
        except Exception:  # no worker, no client, or whatever one raises that is closing by now
            self._emit(Lost(run=asked.run))
            return
        self._tasks[asked.run] = asyncio.create_task(self._follow(asked.run, future))

    def forget(self, run: str) -> None:
        """Nobody waits for a run any more: a worker that is at it ends it."""
        self._withdraw(run)
        self._refused.pop(run, None)
        self._deaths.pop(run, None)

    def _withdraw(self, run: str) -> None:
        self._placed.pop(run, None)
        if task := self._tasks.pop(run, None):
            task.cancel()

    def refuse(self, run: str, how: str) -> None:
        """Leave out the worker whose answer for a run cannot be read, and report the run as lost;
        where several workers fail at it, the run is the cause.
        """
        worker = self._placed.get(run)
        if worker in self._known:
            refused = self._refused.setdefault(run, set())
            refused.add(worker)
            if len(refused) >= MOST_REFUSED:
                self._left_out = {w: each for w, each in self._left_out.items() if each.run != run}
                named = ", ".join(map(shorten, sorted(refused)))
                self._emit(Ended(run=run, problem=f"{len(refused)} Dask workers ({named}) {how}"))
                return
            self._leave_out(worker, LeftOut(how, run))
        self._emit(Lost(run=run))

    async def _follow(self, run: str, future: Any) -> None:
        """Report how a run ended. What was done and went with its worker is compiled again by then."""
        error = None
        try:
            error = await future.exception()
            how, ended = failed_words(error), None
            if error is None:
                ended = Ended(run=run, compiled=inflated(await answered(future)))
        except asyncio.CancelledError:
            await quietly(future.cancel())
            raise
        except Exception as unread:  # whatever a worker's bytes lead to
            how, ended = f"sent what cannot be read ({type(unread).__name__[:60]})", None
        self._tasks.pop(run, None)
        if future.status in ("cancelled", "lost"):
            self._emit(Lost(run=run))
        elif isinstance(error, KilledWorker):
            self._died(run)
        elif ended:
            self._emit(ended)
        else:
            self.refuse(run, how)

    # The workers
    # ----------------------------------------------------------------------------------------------

    def _reach(self, begun: float) -> Reach:
        here = self._last_seen
        self._left_out = {w: each for w, each in self._left_out.items() if w in here}
        named = [f"the Dask worker {shorten(w)} {each.how}" for w, each in self._left_out.items()]
        room = AHEAD * len(self._known - self._left_out.keys())
        named += [f"the Dask worker {shorten(w)} ended with tasks" for w in sorted(self._ended)]
        sentence = "; ".join(named)[:900]
        problem = f"{sentence}, and there is no other: end it, and start it again"
        return Reach(room=room, problem=None if room else problem, begun=begun, left_out=sentence)

    def _leave_out(self, worker: str, why: LeftOut) -> None:
        if worker not in self._left_out:
            self._left_out[worker] = why
            self._emit(self._reach(time.time()))  # before its runs are submitted again
        for run in [each for each in self._tasks if self._placed.get(each) == worker]:
            self._withdraw(run)  # so that no answer of this worker comes after the next task
            self._emit(Lost(run=run))

    def _fit(self, worker: str) -> None:
        super()._fit(worker)
        self._left_out.pop(worker, None)

    def _take_unfit(self, unfit: Mapping[str, Unfit]) -> None:
        """Leave out workers that cannot compile as this process would, where others can."""
        if self._last_seen.keys() <= unfit.keys() | self._left_out.keys():
            super()._take_unfit(unfit)
        for worker, why in unfit.items():
            self._left_out[worker] = LeftOut(why.how, "")
            if why.is_certain:
                self._known.add(worker)

    def _died(self, run: str) -> None:
        self._ended.add(self._placed[run])
        self._deaths[run] += 1
        self._withdraw(run)
        is_cause = self._deaths[run] > MOST_DEATHS
        self._emit(Ended(run=run, problem=DIED) if is_cause else Lost(run=run))

    def _look_for_signs(self) -> None:
        """Leave out workers that show no sign of life, as one that a signal has stopped."""
        now = unhindered()
        for worker in self._known:
            sign = self._last_seen.get(worker)
            if self._signs.get(worker, (None, now))[0] != sign:
                self._signs[worker] = (sign, now)
                if worker in self._left_out and self._left_out[worker].run is None:
                    del self._left_out[worker]
            elif now - self._signs[worker][1] > HUNG_S:
                self._leave_out(
                    worker, LeftOut(f"has shown no sign of life for {HUNG_S:g} s", None)
                )

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
        self._left_out.clear()
        self._signs.clear()
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
    return f"failed in its task ({words(error, 300)})"

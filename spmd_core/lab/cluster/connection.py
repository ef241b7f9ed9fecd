"""A connection to a Dask scheduler, made again where it is lost. What comes from a scheduler is
unpickled here, beside nothing of the lab's.
"""

import asyncio
import json
import secrets
import ssl
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from functools import partial
from importlib.metadata import version
from socket import gaierror
from typing import Any, NamedTuple, TypeVar

import distributed
from distributed.client import FutureCancelledError
from distributed.comm.core import FatalCommClosedError
from distributed.utils_comm import retry

from spmd_core.base import WorkerError, shorten, unhindered, waited_s
from spmd_core.lab.cluster import remote

CONNECT_S = 1.5  # for a scheduler to answer
VERSIONS_S = 45.0  # for a new worker, which may load SPMD Lab first
JOIN_S, GONE_S = 1.5, 3.5  # workers may join so late; a cluster that was there may be away so long
AGAIN_S = 0.3  # between two looks at a cluster that is not there
T = TypeVar("T")
_START = "start it, or correct its address"
_REASONS = (
    (
        ssl.SSLCertVerificationError,
        "shows a certificate that SPMD_LAB_DASK_CA did not sign: name the CA of its certificate",
    ),
    (
        FatalCommClosedError,
        "speaks no TLS, or refuses SPMD_LAB_DASK_CERT: correct the address, or name a "
        "certificate that the scheduler's CA signed",
    ),
    (gaierror, f"does not answer (no machine has this name): {_START}"),
    (ConnectionRefusedError, f"does not answer (nothing listens there): {_START}"),
)


class Connection:
    """A client of the scheduler at `address`; `files` are the CA, the certificate and the key of a
    `tls://` one.
    """

    connect_s, join_s, versions_s = CONNECT_S, JOIN_S, VERSIONS_S

    def __init__(self, address: str, files: tuple[str, ...]):
        self._address, self._files = address, files
        self._named = f"the Dask scheduler {shorten(address)}"
        self._client: Any = None
        self._topic = f"spmd-lab-{secrets.token_hex(8)}"
        self._known: set[str] = set()  # workers whose versions are ours
        self._asked = dict[str, asyncio.Task[object]]()  # by worker, until its versions are known
        self._last_seen = dict[str, object]()  # by worker, its last sign of life
        self._was_there, self._away_since = False, unhindered()

    def _heard(self, event: Any) -> None:
        """A worker has sent this to our topic."""

    def _left_s(self) -> float:
        return self._away_since + (GONE_S if self._was_there else self.join_s) - unhindered()

    async def _workers(self) -> set[str]:
        """Addresses of the workers, all of which could compile as this process would, or are noted
        as unfit; else Away.
        """
        client = self._client
        if client and (client.status != "running" or client._handle_report_task.done()):
            await self._drop()
        client = self._client or await self._connect()
        try:
            who = await within(self.connect_s, client.scheduler.identity(n_workers=-1))
            self._last_seen = {str(each): w["last_seen"] for each, w in who["workers"].items()}
            workers = {*self._last_seen}
        except Exception:  # it went just now, or answers oddly: connecting shows which
            await self._drop()
            raise self._gone() from None
        await self._check(workers)
        self._known &= workers
        if not workers:
            raise Away(
                f"{self._named} has no workers: start some, as docs/cluster.md shows",
                is_certain=False,
            )
        return workers

    async def _check(self, workers: set[str]) -> None:
        """Find the workers that have other versions, or cannot run SPMD Lab. Beside known ones, the
        others answer in the background: one that is silent delays nobody.
        """
        for worker in self._asked.keys() - workers:
            self._asked.pop(worker).cancel()
        for worker in workers - self._known - self._asked.keys():
            self._asked[worker] = asyncio.create_task(self._versions(worker))
        if not self._asked:
            return
        await asyncio.wait(self._asked.values(), timeout=AGAIN_S if self._known else None)
        here, unfit = remote.versions_here(), dict[str, Unfit]()
        for worker in [each for each, task in self._asked.items() if task.done()]:
            theirs = self._asked.pop(worker).result()
            if theirs == here:
                self._fit(worker)
            else:
                unfit[worker] = _unfit(theirs, here, self.versions_s)
        if unfit:
            self._take_unfit(unfit)

    async def _versions(self, worker: str) -> object:
        """The versions of a worker, or why there are none."""
        try:
            asked = self._client.run(remote.versions_here, workers=[worker], on_error="return")
            return (await within(self.versions_s, asked))[worker]
        except Exception as error:  # whatever a worker's bytes lead to
            return error

    def _fit(self, worker: str) -> None:
        self._known.add(worker)

    def _take_unfit(self, unfit: Mapping[str, "Unfit"]) -> None:
        """Away where workers cannot compile as this process would, for the reasons given."""
        worker, why = next(iter(unfit.items()))
        raise Away(f"the Dask worker {shorten(worker)} {why.how}", is_certain=why.is_certain)

    async def _connect(self) -> Any:
        self._known.clear()
        limit_s = self.connect_s
        if self._was_there:
            limit_s = min(limit_s, max(AGAIN_S, self._left_s()))
        security, waited = self._security(), waited_s()
        try:
            # nothing but the scheduler is spoken to
            client = self._client = distributed.Client(
                self._address,
                asynchronous=True,
                direct_to_workers=False,
                security=security,
                set_as_default=False,
                timeout=0.6 * limit_s,  # so that its own reason comes first
            )
            await within(limit_s, client)
            client.subscribe_topic(self._topic, self._heard)
        except Exception as error:  # whatever bytes of a stranger lead to
            await self._drop()
            if self._was_there:
                raise self._gone() from None
            is_certain = waited_s() - waited < AGAIN_S  # Dask's own limits count those too
            words = unanswered_words(error, limit_s)
            raise Away(f"{self._named} {words}", is_certain) from None
        return client

    def _security(self) -> distributed.Security | None:
        if not self._files:
            return None
        ca, cert, key = self._files
        security = distributed.Security(
            tls_ca_file=ca, tls_client_cert=cert, tls_client_key=key, require_encryption=True
        )
        try:
            security.get_connection_args("client")
        except (OSError, ValueError) as error:
            raise Away(
                f"the certificate files {shorten(ca)}, {shorten(cert)} and {shorten(key)} of "
                f"SPMD_LAB_DASK_CA, _CERT and _KEY cannot be used ({words(error)}): "
                "name PEM files that belong together"
            ) from None
        return security

    def _gone(self) -> "Away":
        return Away(f"{self._named} is gone: start it again", is_certain=False)

    async def _drop(self) -> None:
        client, self._client = self._client, None
        while self._asked:
            self._asked.popitem()[1].cancel()
        if client is not None:
            await quietly(client._close(fast=True))


class Away(WorkerError):
    """Why the cluster cannot be used now. `is_certain`: waiting a little would not help."""

    def __init__(self, sentence: str, is_certain: bool = True):
        super().__init__(sentence)
        self.is_certain = is_certain


class Unfit(NamedTuple):
    """Why a worker cannot compile as this process would; `is_certain`: another try is no use."""

    how: str
    is_certain: bool = True


def has_lost_scheduler(error: BaseException) -> bool:
    """Whether a task was given up because the scheduler is no longer there."""
    return isinstance(error, FutureCancelledError) and error.reason == "scheduler-connection-lost"


def unanswered_words(error: BaseException, limit_s: float) -> str:
    """What followed an attempt to connect, and what to do.

    >>> unanswered_words(ConnectionRefusedError(), 2.0)
    'does not answer (nothing listens there): start it, or correct its address'
    """
    chain = [error]
    while (below := chain[-1].__cause__ or chain[-1].__context__) and below not in chain:
        chain.append(below)
    words = next((f for kind, f in _REASONS for each in chain if isinstance(each, kind)), None)
    if words:
        return words
    if any(isinstance(each, TimeoutError) for each in chain):  # Dask's own has it as its cause
        return f"does not answer within {limit_s:g} s: {_START}"
    # nothing of the error: its words are a stranger's
    return f"does not answer as Dask {version('distributed')} does: {_START}"


def _unfit(theirs: object, here: str, limit_s: float) -> Unfit:
    again = "end it, and start it again"
    if isinstance(theirs, TimeoutError):
        return Unfit(f"does not answer within {limit_s:g} s: {again}", is_certain=False)
    if isinstance(theirs, OSError):  # the next look lists those that are left
        return Unfit("ended as it joined: start it again", is_certain=False)
    if isinstance(theirs, BaseException):
        fix = "start workers in its folder, with its Python"
        return Unfit(f"cannot run SPMD Lab ({words(theirs)}): {fix}")
    return Unfit(f"runs other versions ({differing(str(theirs), here)}): use the same ones")


def differing(theirs: str, here: str) -> str:
    """Which versions differ, both as JSON: `jax 0.12 beside 0.10 here`."""
    try:
        mine, other = json.loads(here), dict(json.loads(theirs))
    except (TypeError, ValueError):
        return f"{shorten(theirs, 60)} is none"
    return ", ".join(
        f"{shorten(name, 20)[1:-1]} {str(other.get(name))[:20]} beside {mine.get(name)} here"
        for name in sorted({*mine, *other}, key=str)[:10]
        if mine.get(name) != other.get(name)
    )


def words(error: BaseException, most: int = 60) -> str:
    """The message of an error of Dask's, on one line."""
    text = ""
    with suppress(Exception):  # an error of somebody else's
        text = " ".join(str(error)[:2000].split())
    return text[:most] or type(error).__name__[:most]


async def within(limit_s: float, work: Awaitable[T]) -> T:
    """The result of what is awaited; TimeoutError after so many unhindered seconds."""
    task, until = asyncio.ensure_future(work), unhindered() + limit_s
    try:
        while not task.done() and (left_s := until - unhindered()) > 0:
            await asyncio.wait({task}, timeout=left_s)
        if not task.done():
            raise TimeoutError
        return await task
    finally:
        task.cancel()


async def answered(future: Any) -> Any:
    """The result of a task, requested alone: `await future` requests results together that are ready
    together, and where one of them cannot be read, each fails. A connection that breaks is tried
    again: the worker is not its cause.
    """
    request = partial(future.client.scheduler.gather, keys=[future.key])
    while (reply := await retry(request, 2, AGAIN_S, AGAIN_S))["status"] != "OK":
        if future.status in ("error", "cancelled"):
            return await future  # raises why
        await asyncio.sleep(AGAIN_S)  # its worker is busy, or about to be seen as ended
    return reply["data"][future.key]


async def quietly(ending: Any) -> None:
    """Await what may fail, or take too long, since nothing depends on it any more."""
    with suppress(Exception):
        await within(CONNECT_S, ending)

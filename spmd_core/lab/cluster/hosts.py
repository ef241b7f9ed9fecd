"""The worker of a named cluster, as its supervisor sees it: a process that has each Dask worker
start a member, passes commands on to them and the events of the first one back, and ends, with a
line that names the cause, where one of them does.

It has one thread, however many members there are.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic import Field, TypeAdapter, ValidationError

from spmd_core.base import Frozen, WorkerError, member_words, shorten, unhindered
from spmd_core.lab.cluster import remote
from spmd_core.lab.cluster.connection import (
    AGAIN_S,
    Away,
    Connection,
    answered,
    has_lost_scheduler,
    quietly,
    within,
    words,
)
from spmd_core.lab.cluster.messages import PassedOn
from spmd_core.results import Failure
from spmd_core.runs import READ_BYTES, Failed, Lines, Pong, Started, encode

SILENT_S = 8.0  # a host, or a scheduler, that sends nothing for so long is gone
ANSWER_S, JOINED_S = 10.0, 60.0  # for a scheduler, and for workers, that have just started
START_S = 90.0  # until the first sign of life of each: it may have to load SPMD Lab
SEND_S = 5.0  # for a command; a host that takes none is silent too, which ends the run
_LOOK_S = 1.0
_MOST_LATE_S = 2.0  # what counts of a time in which this process did not come to look


class Sent(Frozen):
    """What a member's task sends: a sign of life, its process, or that it has a line, which is to
    be fetched where it is not there.
    """

    member: int = Field(ge=0)
    worker: str  # which Dask adds
    process: int | None = None
    line: str | None = Field(default=None, max_length=100_000)
    is_line: bool = False


class MemberFailed(WorkerError):
    """What a member has reported as the end of its work."""

    def __init__(self, kind: str, sentence: str):
        super().__init__(sentence)
        self.kind = kind


class MemberLost(WorkerError):
    """A member is gone, or silent, and has not reported why: its run ends as crashed."""


class MembersWanted(NamedTuple):
    """What members are to run, and a hash of the lab's own workloads, which hosts must have too."""

    target: str
    workloads: str


class Host:
    """A member's Dask worker, as far as it is known here."""

    def __init__(self, worker: str, name: str, number: int | None, meeting: str):
        self.worker, self.name, self.number, self.meeting = worker, name[:100], number, meeting
        self.process: int | None = None
        self.silent_s, self.limit_s = 0.0, START_S

    @property
    def order(self) -> tuple[bool, int, str]:
        """The number in a TPU slice, where there is one: JAX takes it from there."""
        return self.number is None, self.number or 0, self.worker


class Hosts(Connection):
    """The members of a run on the hosts of a cluster, and the lines between them and the lab."""

    connect_s, join_s, versions_s = ANSWER_S, JOINED_S, JOINED_S

    def __init__(
        self,
        asked: MembersWanted,
        address: str,
        files: tuple[str, ...],
        write: Callable[[bytes], None],
    ):
        super().__init__(address, files)
        self._target, self._workloads, self._write = asked.target, asked.workloads, write
        self._hosts: list[Host] = []
        self._futures: list[Any] = []
        self._sent: asyncio.Queue[Sent] = asyncio.Queue()
        self._down: asyncio.Queue[PassedOn] = asyncio.Queue()
        self._looked_at, self._silent_s = unhindered(), 0.0
        self._is_ready, self._is_idle = asyncio.Event(), True

    async def serve(self, reader: asyncio.StreamReader) -> None:
        """Start the members and carry their lines until the lab, or one of them, is gone."""
        self._write(encode(Started()))
        listening = asyncio.create_task(self._listen(reader))
        works = [self._begin(), self._pass_down(), self._pass_up(), self._watch()]
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(work) for work in works]
                await listening
                for task in tasks:
                    task.cancel()
        except* WorkerError as errors:
            ended = [each for each in errors.exceptions if isinstance(each, WorkerError)]
            self._tell_end(min(ended, key=lambda each: not isinstance(each, MemberFailed)))
        finally:
            if self._futures:
                await quietly(self._client.cancel(self._futures))
            await self._drop()

    def _tell_end(self, error: WorkerError) -> None:
        """Report an error to the lab: as an event where a member has reported the cause, or where
        the members cannot be started. Otherwise the runs in progress end as crashed, with the last
        line that this process prints.
        """
        kind = error.kind if isinstance(error, MemberFailed) else "WorkerError"
        is_start = not (self._is_ready.is_set() or isinstance(error, MemberLost))
        if isinstance(error, MemberFailed) or is_start:
            self._write(encode(Failed(error=Failure(kind=kind, message=str(error)))))
        print(f"WorkerError: {error}", file=sys.stderr, flush=True)

    # The beginning
    # ----------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        workers = await self._joined()
        self._hosts = sorted(await self._described(workers), key=lambda host: host.order)
        place = len(self._hosts), self._hosts[0].meeting
        for number, host in enumerate(self._hosts):
            key = f"{self._topic}-{number}"
            future = self._client.submit(
                remote.member,
                key,
                self._topic,
                self._target,
                (number, *place),
                key=key,
                workers=[host.worker],
                allow_other_workers=False,
                retries=0,
                pure=False,
            )
            self._futures.append(future)
        await asyncio.gather(
            *(self._follow(number, future) for number, future in enumerate(self._futures))
        )

    async def _joined(self) -> set[str]:
        """The workers, once there are any."""
        while True:
            try:
                return await self._workers()
            except Away as away:
                if away.is_certain or self._left_s() <= 0:
                    raise
            await asyncio.sleep(AGAIN_S)

    async def _described(self, workers: set[str]) -> list[Host]:
        try:
            asked = self._client.run(remote.about, workers=sorted(workers))
            described = await within(self.versions_s, asked)
            for worker, each in described.items():
                _check_workloads(worker, each, self._workloads)
            return [
                Host(worker, str(each["host"]), each["number"], str(each["meeting"]))
                for worker, each in described.items()
            ]
        except WorkerError:
            raise
        except Exception as error:  # whatever a worker sends, or raises
            raise WorkerError(
                f"the hosts of {self._target} cannot be described ({words(error)}): see the "
                "logs of their Dask workers"
            ) from None

    async def _follow(self, number: int, future: Any) -> None:
        """Raise how a member's task ended: it does so only where its member did."""
        how, tail, kind = "has lost its task", "", None
        try:
            error = await future.exception()
            if error is None:
                ended = json.loads(await answered(future))
                how, tail = str(ended["how"])[:1000], str(ended["tail"])[:20_000]
                kind = ended.get("kind")
            else:
                how = f"failed in its task: {words(error, 300)}"
        except Exception as error:  # whatever a worker's bytes lead to
            if has_lost_scheduler(error):
                raise self._scheduler_gone() from None
            how = f"sent what cannot be read ({type(error).__name__})"
        await self._all_read()
        print(tail, file=sys.stderr)
        raise self._failed(number, kind, how) if kind else self._lost(number, how)

    async def _all_read(self) -> None:
        """Wait until every line that has come is handled: a member that reports an error and ends
        has failed, and is not lost.
        """
        with suppress(TimeoutError):
            await within(SEND_S, self._sent.join())

    def _lost(self, number: int, how: str) -> MemberLost:
        return MemberLost(self._named_member(number, how))

    def _failed(self, number: int, kind: object, how: str) -> MemberFailed:
        return MemberFailed(str(kind)[:100], self._named_member(number, f"failed: {how}"))

    def _scheduler_gone(self) -> WorkerError:
        return WorkerError(f"{self._named} is gone: start it, and the workers, again")

    def _named_member(self, number: int, how: str) -> str:
        host = self._hosts[number]
        process = host.process or "not started"
        who = member_words(number, len(self._hosts), self._target, host.name, process)
        return f"{who} {how}"

    # The lines
    # ----------------------------------------------------------------------------------------------

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        lines = Lines(TypeAdapter(PassedOn))
        while data := await reader.read(READ_BYTES):
            for command in lines.feed(data):
                if command.command == "ping":
                    self._write(encode(Pong()))  # where a member is gone this process ends
                else:
                    self._down.put_nowait(command)

    async def _pass_down(self) -> None:
        """A run goes to all members; the first decides for them whether it is cancelled."""
        while True:
            command = await self._down.get()
            is_run = command.command == "run"
            self._is_idle &= not is_run
            if not is_run and command.command != "cancel":
                continue  # nothing of a cluster is paused
            to = [host.worker for host in (self._hosts if is_run else self._hosts[:1])]
            line = command.model_dump_json()
            with suppress(OSError):  # who is gone is named by its silence, or by its task
                sent = self._client.run(remote.passed_on, self._topic, line, workers=to)
                await within(SEND_S, sent)

    async def _pass_up(self) -> None:
        while True:
            sent = await self._sent.get()
            line = await self._fetched(sent.member) if sent.line is None else sent.line
            if sent.member:
                self._take_failure(sent.member, line)
            else:
                self._take_line(line)
            self._sent.task_done()

    async def _fetched(self, number: int) -> str:
        """A long line of a member; none where its Dask worker is gone, which the watch reports."""
        worker = self._hosts[number].worker
        with suppress(OSError, KeyError):
            asked = self._client.run(remote.fetched, self._topic, workers=[worker])
            return str((await asked)[worker])
        return ""

    def _take_line(self, line: str) -> None:
        if line.startswith('{"event":"ready"'):
            self._is_ready.set()
        self._is_idle |= line.startswith('{"event":"finished"')
        if line and not line.startswith('{"event":"started"'):  # this process has sent its own
            self._write(line.encode().replace(b"\n", b"") + b"\n")

    def _take_failure(self, number: int, line: str) -> None:
        with suppress(ValidationError):
            error = Failed.model_validate_json(line).error
            raise self._failed(number, error.kind, error.message)

    def _heard(self, event: Any) -> None:
        self._silent_s = 0.0  # it came by the scheduler
        with suppress(ValidationError, TypeError, KeyError, IndexError):
            sent = Sent.model_validate(event[1])
            host = self._hosts[sent.member]
            if host.worker != sent.worker:
                return
            host.silent_s, host.limit_s = 0.0, SILENT_S
            host.process = sent.process or host.process
            if sent.is_line:
                self._sent.put_nowait(sent)

    # The watch
    # ----------------------------------------------------------------------------------------------

    async def _watch(self) -> None:
        """Raise where a host or the scheduler is gone, or silent: a scheduler that is slow to answer
        still hands on what hosts send.
        """
        while True:
            await asyncio.sleep(_LOOK_S)
            now = unhindered()
            passed, self._looked_at = min(now - self._looked_at, _MOST_LATE_S), now
            if not self._futures:
                continue
            self._silent_s += passed
            workers = await self._seen()
            if workers is not None:
                self._silent_s = 0.0
            if self._silent_s > SILENT_S or self._client.status != "running":
                raise self._scheduler_gone()
            joined = (workers or set()) - {host.worker for host in self._hosts}
            if joined and self._is_ready.is_set() and self._is_idle:
                raise WorkerError(f"{len(joined)} more have joined {self._target}: run it again")
            for number, host in enumerate(self._hosts):
                host.silent_s += 0.0 if self._silent_s else passed  # all are silent where it is
                how = None
                if workers is not None and host.worker not in workers:
                    how = "is gone with its Dask worker"
                elif host.silent_s > host.limit_s:
                    how = f"has not been heard of for {host.limit_s:.0f} s"
                if how:
                    await self._all_read()
                    raise self._lost(number, how)

    async def _seen(self) -> set[str] | None:
        """The workers that the scheduler knows now; None where it does not answer."""
        with suppress(OSError):
            who = await within(_LOOK_S, self._client.scheduler.identity(n_workers=-1))
            return {str(worker) for worker in who["workers"]}
        return None


def _check_workloads(worker: str, about: Mapping[str, Any], here: str) -> None:
    """WorkerError where a host has other workloads of the user's own than the lab."""
    host, theirs = shorten(str(about["host"]))[1:-1], str(about["workloads"])[:20]
    if theirs != here:
        raise WorkerError(
            f"the Dask worker {shorten(worker)} on host {host} has other files in "
            f"SPMD_LAB_WORKLOADS than the lab (version {theirs or 'none'} beside "
            f"{here or 'none'} here): start it with the same"
        )


async def serve(
    channel: socket.socket, asked: MembersWanted, address: str, files: tuple[str, ...]
) -> None:
    """Be the worker of a named cluster until the lab is gone."""
    reader, writer = await asyncio.open_connection(sock=channel)
    await Hosts(asked, address, files, writer.write).serve(reader)
    writer.transport.set_write_buffer_limits(0)  # so that drain waits for the last byte
    with suppress(OSError):
        await writer.drain()

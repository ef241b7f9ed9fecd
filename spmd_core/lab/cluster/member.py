"""A member of a run on several hosts, in the Dask worker of its host: the task that starts the
member's process, carries its lines, watches it, and ends it where it is wanted no longer.

It works in the Dask worker's event loop, with no thread of its own.
"""

import asyncio
import json
import socket
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any

from spmd_core.base import SILENT, Watched, WorkerError, unhindered
from spmd_core.lab.cluster.messages import PassedOn
from spmd_core.lab.supervisor.environment import worker_environment
from spmd_core.lab.supervisor.process import Worker, ending_text
from spmd_core.machine import read_hardware
from spmd_core.runs import PingCommand, Pong, encode
from spmd_core.workloads import files

BEAT_S = 1.0  # between two signs of life
WANTED_S = 8.0  # a scheduler that does not answer for so long is gone, or frozen
ASK_S = 2.0  # between two questions whether the task is wanted
MOST_SENT = 8 * 1024  # bytes of a line that is sent; a scheduler keeps what is: others are fetched
_here: dict[tuple[str, str], "Member"] = {}  # by topic and address of the Dask worker


class Member:
    """The process of a member, and the lines of it that wait to be fetched."""

    def __init__(self, target: str, place: tuple[int, int, str]):
        number, hosts, meeting = place
        hardware = read_hardware()
        if hardware.holders:
            held = hardware.holders[0]
            raise WorkerError(f"{held.device_file} is held by process {held.pid} ({held.name})")
        words = ["--member", str(number), "--hosts", str(hosts), "--meet", meeting]
        environ = worker_environment(target, hardware)
        self.number, self.worker = number, Worker(target, environ, words)
        self.watched = Watched(self.worker.pid)
        self.fetched: deque[str] = deque()

    def lines(self) -> list[str]:
        """What it has sent, but for answers to pings; of all but the first only why it failed."""
        sent = self.worker.receive()
        if sent:
            self.watched.answered()
        kept = [event for event in sent if not isinstance(event, Pong)]
        shown = kept if self.number == 0 else [each for each in kept if each.event == "failed"]
        return [encode(event).decode() for event in shown]

    def look(self) -> tuple[list[str], str | None]:
        """Returns the lines that have come, and why the process ended, or must be ended; None
        while it works.
        """
        is_gone = self.worker.is_gone()  # first: of a process that is gone every line is read
        lines = _read(self)
        if not (is_gone or self.worker.is_broken):
            return lines, self.watched.problem()
        words = ending_text(self.worker.reap())
        line = self.worker.failing_line()
        return lines, words if line == SILENT else f"{words}: {line}"


async def carried(
    dask: Any,
    key: str,
    topic: str,
    target: str,
    place: tuple[int, int, str],
) -> str:
    """Carry a member's lines until it ends, or the task is wanted no longer; how it ended, the
    last that it wrote, and the kind of the error that kept it from starting, as JSON.
    """
    try:
        member = Member(target, place)
    except WorkerError as error:
        return json.dumps({"how": str(error), "tail": "", "kind": "WorkerError"})

    def say(**words: object) -> None:
        dask.log_event(topic, {"member": member.number, **words})

    _here[topic, dask.address] = member
    say(process=member.worker.pid)
    try:
        holds = partial(_holds, dask, key)
        how = await _followed(member, say, holds, _until_unwanted(dask, key))
        await _until_fetched(member, holds)
        return json.dumps({"how": how, "tail": member.worker.stderr_tail()})
    finally:
        _here.pop((topic, dask.address), None)
        member.worker.stop(0.0)
        member.worker.close()


async def _followed(
    member: Member,
    say: Callable[..., None],
    holds: Callable[[], bool],
    until_unwanted: Coroutine[Any, Any, None],
) -> str:
    is_there, loop = asyncio.Event(), asyncio.get_running_loop()
    stream = member.worker.fileno()  # which a reaped process has no longer
    loop.add_reader(stream, is_there.set)
    wanted = asyncio.create_task(until_unwanted)
    beaten = 0.0
    try:
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(is_there.wait(), BEAT_S / 2)
            is_there.clear()
            lines, ending = member.look()
            for line in lines:
                is_short = len(line) <= MOST_SENT
                if not is_short:
                    member.fetched.append(line)
                say(line=line if is_short else None, is_line=True)
            if ending or wanted.done() or not holds():
                return ending or "is wanted no longer"
            if time.monotonic() - beaten >= BEAT_S:
                beaten = time.monotonic()
                member.worker.send(PingCommand())
                say()
    finally:
        wanted.cancel()
        loop.remove_reader(stream)


async def _until_fetched(member: Member, holds: Callable[[], bool]) -> None:
    """Wait until the long lines of an ended member are fetched: its end is reported after them."""
    until = unhindered() + WANTED_S
    while member.fetched and holds() and unhindered() < until:
        await asyncio.sleep(BEAT_S / 20)


def _read(member: Member) -> list[str]:
    try:
        return member.lines()
    except WorkerError as error:  # its stream is broken from here on, which ends it
        print(error)
        return []


async def _until_unwanted(dask: Any, key: str) -> None:
    """Return once nobody wants the task, or nobody can be reached: a scheduler that is gone or frozen
    must not leave a member behind that holds its devices.
    """
    last = unhindered()
    while unhindered() - last < WANTED_S:
        with suppress(TimeoutError, OSError):
            async with asyncio.timeout(WANTED_S):
                states = await dask.scheduler.get_task_status(keys=[key])
                if states.get(key) != "processing":
                    return
                last = unhindered()
        await asyncio.sleep(ASK_S)


def _holds(dask: Any, key: str) -> bool:
    task = dask.state.tasks.get(key)
    return task is not None and task.state != "cancelled" and dask.status.name == "running"


def passed_on(dask: Any, topic: str, line: str) -> None:
    """Pass a command on to the member of this Dask worker, if it is still there."""
    if member := _here.get((topic, dask.address)):
        member.worker.send(PassedOn.model_validate_json(line))


def fetched(dask: Any, topic: str) -> str:
    """The first of the long lines that wait here."""
    member = _here.get((topic, dask.address))
    return member.fetched.popleft() if member and member.fetched else ""


def about(dask: Any) -> dict[str, object]:
    """What this host is: its name, its number in a TPU slice, and an address that others reach."""
    address = dask.address.partition("://")[2].rpartition(":")[0]
    return {
        "host": socket.gethostname(),
        "number": read_hardware().slice_host,
        "workloads": files.fingerprint(),
        "meeting": f"{address}:{_free_port(address)}",
    }


def _free_port(address: str) -> int:
    host = address.strip("[]")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        return probe.getsockname()[1]

"""The other members of a run on several hosts: workers that the first one starts, commands, and
watches.

They belong to its process group and end with it, whatever happens to it; it ends when one of them
does, so that none waits for a partner that is gone.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NoReturn

from spmd_core.base import Watched, WorkerError, descriptors, member_words, shorten
from spmd_core.machine import parse_target
from spmd_core.results import Failure
from spmd_core.runs import EVENTS, READ_BYTES, Command, Event, Failed, Lines, PingCommand, encode

PING_S = 1.0
_LONGEST_PATH = 100  # bytes, of the 108 that a path of a socket may have


class Members:
    """The members beside the first, which holds this."""

    def __init__(self, target: str, meeting: str, emit: Callable[[Event], None]):
        self._target, self._emit, self._sending = target, emit, threading.Lock()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._channels: list[socket.socket] = []
        for number in range(1, parse_target(target).hosts):
            ours, theirs = socket.socketpair()
            with theirs:
                words = ["--fd", str(theirs.fileno()), "--target", target]
                words += ["--member", str(number), "--meet", meeting]
                command = [sys.executable, "-m", "spmd_core.worker", *words]
                process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
            self._processes.append(process)
            self._channels.append(ours)
        # started last: a child is killed with the thread that started it, which is the main one
        threading.Thread(target=self._watch, name="members", daemon=True).start()

    def send(self, command: Command) -> None:
        """Send it to every member."""
        with self._sending, suppress(OSError):  # the thread that watches names who is gone
            for channel in self._channels:
                channel.sendall(encode(command))

    def _watch(self) -> None:
        lines = [Lines[Event](EVENTS) for _ in self._channels]
        watched, pinged = [Watched(each.pid) for each in self._processes], 0.0
        while True:
            ready = descriptors.readable(self._channels, PING_S)
            for place, channel in enumerate(self._channels):
                if channel in ready:
                    watched[place].answered()
                    self._hear(place, channel, lines[place])
                if problem := watched[place].problem():
                    self._end(place, problem)
            if time.monotonic() - pinged >= PING_S:
                pinged = time.monotonic()
                self.send(PingCommand())

    def _hear(self, place: int, channel: socket.socket, lines: Lines[Event]) -> None:
        try:
            data = channel.recv(READ_BYTES)
            events = list(lines.feed(data)) if data else []
        except (OSError, WorkerError):
            data, events = b"", []
        for event in events:
            if isinstance(event, Failed):
                self._fail(place, event.error)
        if not data:
            with suppress(subprocess.TimeoutExpired):
                self._processes[place].wait(1.0)
            self._end(place, _ending(self._processes[place].poll()))

    def _fail(self, place: int, error: Failure) -> NoReturn:
        words = f"{self._named(place)} failed: {error.message}"
        self._emit(Failed(error=Failure(kind=error.kind, message=words)))
        self._end(place, f"failed: {error.message}")

    def _named(self, place: int) -> str:
        hosts, process = len(self._processes) + 1, self._processes[place].pid
        return member_words(place + 1, hosts, self._target, socket.gethostname(), process)

    def _end(self, place: int, how: str) -> NoReturn:
        print(f"WorkerError: {self._named(place)} {how}", file=sys.stderr, flush=True)
        for each in self._processes:
            each.kill()
        os._exit(1)


def _ending(status: int | None) -> str:
    if status is None or status >= 0:
        return f"ended with exit status {status}"
    names = {each.value: each.name for each in signal.Signals}
    return f"was ended by {names.get(-status, f'signal {-status}')}"


@contextmanager
def meeting_place() -> Iterator[str]:
    """Where the members of this machine meet: a socket that no other user can reach, gone once all
    of them are connected.
    """
    with tempfile.TemporaryDirectory(prefix="spmd-lab-", ignore_cleanup_errors=True) as folder:
        path = os.path.join(folder, "meeting")
        if len(os.fsencode(path)) > _LONGEST_PATH:
            raise WorkerError(
                f"TMPDIR={shorten(tempfile.gettempdir())} is too long for the path of a socket: "
                "use a shorter one"
            )
        yield f"unix:{path}"

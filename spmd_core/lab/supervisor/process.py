"""A child process as its parent sees it: started, spoken to, listened to, ended."""

import contextlib
import ctypes
import errno
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, TypeAdapter

from spmd_core.base import SILENT, Watched, WorkerError, descriptors, failing_line
from spmd_core.machine import dumps as dump_folder
from spmd_core.results import Environment
from spmd_core.runs import (
    EVENTS,
    READ_BYTES,
    Event,
    Lines,
    PingCommand,
    Pong,
    RestedCommand,
    encode,
)

ROOT = Path(__file__).resolve().parents[3]  # the folder that holds the package
TAIL_BYTES = 16 * 1024
MAX_SEARCHED_BYTES = 2**20  # a dump of many threads can be longer than the tail that is kept
MAX_STDERR_BYTES = 16 * 2**20
_PUNCH_HOLE = 0x03  # linux/falloc.h: FALLOC_FL_KEEP_SIZE | FALLOC_FL_PUNCH_HOLE
STOP_S = 1.0  # a thread in the kernel, for example on a slow disk, stops later than the others
UNKILLABLE_S = 10.0  # how long to wait for a process that the kernel does not let go of


T = TypeVar("T")


class Child(Generic[T]):
    """One `python -m MODULE --fd N …`, in a process group of its own; `adapter` reads its events.

    Start it from a thread that lives as long as the process: on Linux the child dies with the
    thread that started it.
    """

    def __init__(
        self, module: str, arguments: list[str], environ: Mapping[str, str], adapter: TypeAdapter[T]
    ):
        self.is_broken = False  # the stream ended, or carried junk
        self.is_paused = False
        self._is_ended = False
        self._lines = Lines(adapter)
        try:
            self._reader, theirs = socket.socketpair()
            # a regular file: what a crashing process wrote last stays in it, and the worker can
            # read its compiler's warnings there
            self._stderr = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115
        except OSError as error:
            raise _not_started(error) from error
        self._stderr_start = self._stderr_freed = 0
        command = [sys.executable, "-m", module, "--fd", str(theirs.fileno()), *arguments]
        path = os.pathsep.join(part for part in (str(ROOT), environ.get("PYTHONPATH", "")) if part)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command,
                    cwd=ROOT,
                    env={**environ, "PYTHONPATH": path},
                    stdin=subprocess.DEVNULL,
                    stdout=self._stderr,
                    stderr=self._stderr,
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except OSError as error:
                self._reader.close()
                self._stderr.close()
                raise _not_started(error) from error
        self.pid = self._process.pid

    def fileno(self) -> int:
        """The descriptor that events come from."""
        return self._reader.fileno()

    def send(self, command: BaseModel) -> None:
        """Send a command. Where the process is gone, the stream ends once it has been read."""
        try:
            self._reader.sendall(encode(command))
        except ConnectionError:
            pass  # the process is gone: what it sent before is still to be read
        except OSError:
            self.is_broken = True

    def receive(self) -> list[T]:
        """The events that have come, without waiting. WorkerError for junk in the stream."""
        events: list[T] = []
        while not self.is_broken and descriptors.readable([self._reader], 0):
            try:
                data = self._reader.recv(READ_BYTES)
            except OSError:
                data = b""
            if not data:
                self.is_broken = True
                break
            try:
                events += self._lines.feed(data)
            except WorkerError:
                self.is_broken = True
                raise
        return events

    def is_gone(self) -> bool:
        """Whether it ended, or can no longer be spoken to."""
        return self.is_broken or self._process.poll() is not None

    def stop(self, grace_s: float) -> int | None:
        """End the process group: SIGTERM, SIGKILL after `grace_s`. The exit status, negative for a
        signal; None where it does not end.
        """
        if self.is_paused and not self._is_ended:
            self._signal(signal.SIGKILL)  # it could do nothing for SIGTERM
        elif not self._is_ended:
            self._signal(signal.SIGTERM)
            if self._wait(grace_s) is None:
                self._signal(signal.SIGKILL)
        return self._end()

    def reap(self, within_s: float = 1.0) -> int | None:
        """Exit status of a process whose stream has ended; it is killed where it does not end by
        itself.
        """
        self._wait(within_s)
        self._signal(signal.SIGKILL)  # also what it may have started
        return self._end()

    def close(self) -> None:
        """Close its files, after the end."""
        self._stderr.close()

    def _end(self) -> int | None:
        # from here on its number may belong to another process
        self.is_broken = self._is_ended = True
        self._reader.close()
        status = self._wait(UNKILLABLE_S)
        dump_folder.sweep()  # what a killed compiler left
        return status

    def stderr_tail(self, most_bytes: int = TAIL_BYTES) -> str:
        """The last of what it wrote for the current run; it can be read after the end too."""
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(self._stderr_start, size - most_bytes)
        return os.pread(self._stderr.fileno(), size - start, start).decode(errors="replace")

    def failing_line(self) -> str:
        """The line that names why it ended, among all of its output that is still kept."""
        return failing_line(self.stderr_tail(MAX_SEARCHED_BYTES).replace("\0", ""))

    def begin_stderr(self) -> None:
        """What it writes from here on belongs to the next run."""
        self._stderr_start = os.fstat(self._stderr.fileno()).st_size

    def bound_stderr(self) -> None:
        """Give back the disk space of all but the tail, where much was written."""
        end = os.fstat(self._stderr.fileno()).st_size - TAIL_BYTES
        if sys.platform == "linux" and end - self._stderr_freed > MAX_STDERR_BYTES:
            # a hole, not a truncation: nothing that is being written meanwhile can get lost
            ctypes.CDLL(None).fallocate(
                self._stderr.fileno(), _PUNCH_HOLE, ctypes.c_int64(0), ctypes.c_int64(end)
            )
            self._stderr_freed = end

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def _wait(self, timeout_s: float) -> int | None:
        deadline = time.monotonic() + timeout_s
        while (status := self._process.poll()) is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return status


class Worker(Child[Event]):
    """A `python -m spmd_core.worker`, which owns the devices of one target; or another `module`
    that speaks its protocol.
    """

    def __init__(
        self,
        target: str,
        environ: Mapping[str, str],
        words: Sequence[str] = (),
        module: str = "spmd_core.worker",
    ):
        super().__init__(module, ["--target", target, *words], environ, EVENTS)
        self.target, self._watched = target, Watched(self.pid)
        self.environment: Environment | None = None  # once it is ready
        self.may_be_paused = False  # once it has reported that it ends with this process
        self._paused_at = 0.0

    def problem(self) -> str | None:
        """Why it must be ended although a run is in progress: a signal has stopped it. Other
        silence is no reason, since native code may keep Python's lock.
        """
        self._watched.answered()
        return None if self.is_paused else self._watched.problem()

    def answers(self, within_s: float) -> bool:
        """Whether an idle worker still answers: one that was stopped (SIGSTOP) or hangs does not."""
        self.send(PingCommand())
        deadline = time.monotonic() + within_s
        while not self.is_broken and (left := deadline - time.monotonic()) > 0:
            if descriptors.readable([self._reader], left) and Pong() in self.receive():
                return True
        return False

    def pause(self) -> None:
        """Stop the process group where it is, without its knowing; return once it stands, or after
        STOP_S. It can still be killed.
        """
        if not self.is_gone():
            self._signal(signal.SIGSTOP)
            self._wait_for_stop()
            if not self.is_paused:
                self.is_paused, self._paused_at = True, time.monotonic()

    def resume(self) -> None:
        """Let a paused process group go on."""
        if self.is_paused and not self._is_ended:
            self.send(RestedCommand(seconds=time.monotonic() - self._paused_at))
            self._signal(signal.SIGCONT)
        self.is_paused = False

    def _wait_for_stop(self) -> None:
        # each thread stops on its own way out of the kernel: until the last, one of them computes
        deadline = time.monotonic() + STOP_S
        how = os.WSTOPPED | os.WEXITED | os.WNOWAIT | os.WNOHANG
        with contextlib.suppress(ChildProcessError):
            while os.waitid(os.P_PID, self.pid, how) is None and time.monotonic() < deadline:
                time.sleep(0.0005)


def _not_started(error: OSError) -> WorkerError:
    fix = f"see that {sys.executable} can be run"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        fix = "close other programs, or raise `ulimit -n`"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        fix = f"make room in {tempfile.gettempdir()}"
    return WorkerError(f"the worker process could not be started: {error.strerror}: {fix}")


def ending_text(status: int | None) -> str:
    """How a process ended, in words."""
    if status is None:
        return "does not end"
    if status >= 0:
        return f"ended with exit status {status}"
    name = signal.Signals(-status).name if -status in {*signal.Signals} else f"signal {-status}"
    hint = ", which the kernel also sends when memory runs out" if -status == signal.SIGKILL else ""
    return f"was ended by {name}{hint}"


def tail_with(line: str, tail: str) -> str:
    """The tail of what was written, led by the failing line where the tail no longer holds it."""
    return tail if line in tail or line == SILENT else f"{line}\n…\n{tail}"

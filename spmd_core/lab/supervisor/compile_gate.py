"""Keeps compilers from running beside a timed run."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from spmd_core.base import WorkerError, descriptors
from spmd_core.lab.supervisor.process import Child


class Wakeup:
    """A pipe to oneself: `set` from any thread, `wait` in one. A `set` before the wait counts."""

    def __init__(self) -> None:
        try:
            self._out, self._in = os.pipe()
        except OSError as error:
            raise WorkerError(
                f"the queue cannot be worked: {error.strerror}: close other "
                "programs, or raise `ulimit -n`"
            ) from error
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)

    def set(self) -> None:
        """Wake the thread that waits, or that will."""
        with suppress(BlockingIOError):  # the pipe is full already
            os.write(self._in, b".")

    def wait(self, timeout_s: float | None, worker: Child[Any] | None = None) -> bool:
        """Wait for `set`, an event of the worker, or the time; whether it was `set`."""
        is_heard = worker is not None and not worker.is_broken
        sources = [self._out, worker] if is_heard else [self._out]
        if self._out not in descriptors.readable(sources, timeout_s):
            return False
        os.read(self._out, 4096)
        return True

    def close(self) -> None:
        """Close the pipe, once nobody waits any more."""
        os.close(self._in)
        os.close(self._out)


WAIT_S = 10.0  # that a timed run waits for a compiler that loads, which cannot be paused yet


class CompileGate:
    """Shared by the lane that times runs and the lanes that compile."""

    def __init__(self) -> None:
        self.timed: str | None = None  # the run that is timed now
        self._wake: Callable[[], None] = lambda: None
        self._guard = threading.Lock()
        self._compiling: set[str] = set()  # names of the lanes whose compiler runs
        self._is_free = threading.Event()
        self._is_free.set()

    def on_change(self, wake: Callable[[], None]) -> None:
        """`wake` wakes the lanes that compile."""
        self._wake = wake

    def start_timing(self, run: str) -> None:
        """`run` is timed from now on. Returns once nothing compiles, or after WAIT_S."""
        with self._guard:
            self.timed = run
        self._wake()
        self._is_free.wait(WAIT_S)

    def end_timing(self) -> None:
        """Nothing is timed any more."""
        with self._guard:
            was_timed, self.timed = self.timed, None
        if was_timed:
            self._wake()

    def may_compile(self, lane: str) -> bool:
        """Whether a lane may compile, until it calls `stop_compiling`; False while a run is timed."""
        with self._guard:
            if self.timed is None:
                self._compiling.add(lane)
                self._is_free.clear()
            return self.timed is None

    def stop_compiling(self, lane: str) -> None:
        """A lane's compiler is idle or paused."""
        with self._guard:
            self._compiling.discard(lane)
            if not self._compiling:
                self._is_free.set()

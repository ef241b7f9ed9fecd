"""Wakes a thread that waits for a worker, for the time, or for another thread."""

import os
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

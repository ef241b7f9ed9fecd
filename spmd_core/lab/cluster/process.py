"""The process of the Dask client, as the lab sees it."""

import os
import time

from spmd_core.base import Settings, shorten
from spmd_core.lab.cluster.messages import ALIVE_S, EVENTS, Event
from spmd_core.lab.supervisor.exit_message import SILENT
from spmd_core.lab.supervisor.process import Child, ending_text

# The variables that it inherits: what Python needs to load Dask. Anything else may be a
# secret, and whoever reaches the scheduler can run code in this process
GIVEN = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")
START_S = 30.0  # to load Dask, on a busy machine
SILENT_S = 2.5  # once it has loaded Dask, it sends something every ALIVE_S


class DaskProcess(Child[Event]):
    """A `python -m spmd_core.lab.cluster`, which holds the connection to the scheduler."""

    def __init__(self, settings: Settings):
        environ = {name: os.environ[name] for name in GIVEN if name in os.environ}
        super().__init__(
            "spmd_core.lab.cluster", [settings.dask, *settings.dask_tls], environ, EVENTS
        )
        self._reader.settimeout(SILENT_S)  # a process that takes no commands is broken
        self._address, self._limit_s = settings.dask, START_S
        self._silent_s, self._looked_at = 0.0, time.monotonic()

    def receive(self) -> list[Event]:
        """The events that have come, without waiting. WorkerError for junk in the stream."""
        events = super().receive()
        if events:
            self._silent_s, self._limit_s = 0.0, SILENT_S
        return events

    def failure(self, what: str = "") -> str | None:
        """Why it cannot be used any more, `what` where that is known; None where it can."""
        # a machine that rests, or a lab that is busy, is not the other's silence
        now, was = time.monotonic(), self._looked_at
        self._silent_s, self._looked_at = self._silent_s + min(now - was, ALIVE_S), now
        if not what and self.is_gone():
            what, line = ending_text(self.reap()), self.failing_line()
            what += "" if line == SILENT else f" ({line[:60]})"
        if not what and self._silent_s >= self._limit_s:
            what = f"was silent for {self._limit_s:g} s"
        if not what:
            return None
        return (
            f"the process that talks to the Dask scheduler {shorten(self._address)} {what[:400]}: "
            "see who may reach the scheduler, and try it again"
        )

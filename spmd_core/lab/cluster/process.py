"""The process of the Dask client, as the lab sees it."""

import os
import time

from spmd_core.base import Settings, shorten
from spmd_core.lab.cluster.messages import EVENTS, Event
from spmd_core.lab.supervisor.process import Child

# What of the lab's environment it is given: what Python needs to load Dask. Anything else may be a
# secret, and whoever reaches the scheduler can run code in this process
GIVEN = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH")
START_S = 30.0  # to load Dask, on a busy machine
SILENT_S = 3.5  # once it has loaded it, it says something every ALIVE_S


class DaskProcess(Child[Event]):
    """A `python -m spmd_core.lab.cluster`, which holds the connection to the scheduler."""

    def __init__(self, settings: Settings):
        environ = {name: os.environ[name] for name in GIVEN if name in os.environ}
        super().__init__(
            "spmd_core.lab.cluster", [settings.dask, *settings.dask_tls], environ, EVENTS
        )
        self._reader.settimeout(SILENT_S)  # a process that takes no commands is broken
        self._address, self._heard_at, self._limit_s = settings.dask, time.monotonic(), START_S

    def receive(self) -> list[Event]:
        """The events that have come, without waiting. WorkerError for junk in the stream."""
        events = super().receive()
        if events:
            self._heard_at, self._limit_s = time.monotonic(), SILENT_S
        return events

    def silence(self) -> str | None:
        """Why it says nothing any more; None where it does."""
        if time.monotonic() - self._heard_at < self._limit_s:
            return None
        if self._limit_s == START_S:
            return (
                f"the process of the Dask client did not start within {START_S:.0f} s: try it again"
            )
        return (
            f"what the Dask scheduler {shorten(self._address)} sent stopped the process of its "
            "client: see who may reach it, and start it again"
        )

"""What takes long and is carried out in a thread of its own: how it stands, and how it is ended."""

import threading
from collections.abc import Callable
from typing import TypeVar


def started(work: Callable[[], object], name: str) -> threading.Event:
    """Start `work` in a thread. Returns an event that is set when it ends.

    CPython 3.11 reports a thread as ended once its join was interrupted; an event is reliable.
    """
    ended = threading.Event()

    def worked() -> None:
        try:
            work()
        finally:
            ended.set()

    threading.Thread(target=worked, name=name, daemon=True).start()
    return ended


class Work:
    """Work that goes on until it is done or cancelled, and keeps its results until then.

    `state` is "running" until it is over; `cancel`, `is_cancelled` and `is_over` may be called from
    any thread.
    """

    def __init__(self) -> None:
        self.state = "running"
        self._stopped = threading.Event()

    def run(self) -> object:
        """Carry it out; returns when it is over."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Stop soon, and keep the results."""
        self._stopped.set()

    @property
    def is_cancelled(self) -> bool:
        """Whether it was requested to stop."""
        return self._stopped.is_set()

    @property
    def is_over(self) -> bool:
        """Whether nothing is looked at any more."""
        return self.state != "running"


W = TypeVar("W", bound=Work)


def carried_out(work: W, name: str, on_change: Callable[[W], None], every_s: float = 0.2) -> W:
    """The work once it is over, which a thread named `name` carries out; `on_change` is called as
    it goes on. Ctrl-C ends it, and keeps the results.
    """
    ended = started(work.run, name)
    try:
        while not ended.wait(every_s):
            on_change(work)
    except KeyboardInterrupt:
        work.cancel()
        ended.wait()
    return work

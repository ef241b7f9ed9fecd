"""Runs work in a thread and waits for it in a way that Ctrl-C can interrupt."""

import threading
from collections.abc import Callable


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

"""Work in a thread of its own, waited for so that Ctrl-C may interrupt the wait."""

import threading
from collections.abc import Callable


def started(work: Callable[[], object], name: str) -> threading.Event:
    """Begin `work` in a thread; an event that is set once it has ended.

    A thread whose join was interrupted is taken for one that has ended (CPython 3.11): not an event.
    """
    ended = threading.Event()

    def worked() -> None:
        try:
            work()
        finally:
            ended.set()

    threading.Thread(target=worked, name=name, daemon=True).start()
    return ended

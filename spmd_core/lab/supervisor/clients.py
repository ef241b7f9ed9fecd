"""Which processes have a data folder open: the clients that wait for its runs."""

import secrets
import time
from pathlib import Path

from spmd_core.lab.supervisor.folder_lock import FolderLock

FILE_NAME = "clients.lock"
_NUMBER_BITS = 40
DELETED_S = 5.0  # within which every living client locks a deleted file anew


class Clients:
    """Each client has a random number, and holds a lock on the byte of that number in one file.

    The kernel frees it with the process, however that ends; a process id may be another process's
    by then, or mean nothing in another container.
    """

    def __init__(self, folder: Path):
        self.own = secrets.randbits(_NUMBER_BITS)
        self._lock = FolderLock(folder, FILE_NAME, self.own, 1)
        self._lock.acquire()
        self._doubt_until = 0.0

    def keep(self) -> None:
        """Hold the lock although its file was deleted."""
        if self._lock.keep():
            self._doubt_until = time.monotonic() + DELETED_S

    def lives(self, client: int | None) -> bool:
        """Whether that client's process lives; None is nobody."""
        self.keep()
        if client is None or client == self.own:
            return client is not None
        return self._lock.is_locked(client) or time.monotonic() < self._doubt_until

    def close(self) -> None:
        """This process is no client any more."""
        self._lock.close()

"""The lock on a data folder's queue: a file lock, and the database where its file was deleted."""

import os
from pathlib import Path

from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.folder_lock import FolderLock


class QueueLock:
    """The file lock of a data folder, and a row in the database that names its holder and file.

    A deleted lock file frees the lock for all but its holder. The row counts only where it names
    another file than the one at the path, and a living process.
    """

    def __init__(self, folder: Path, store: Store):
        self._lock, self._store = FolderLock(folder), store

    @property
    def held(self) -> bool:
        """Whether this process holds the lock."""
        return self._lock.held

    def acquire(self) -> bool:
        """Try to take the lock, without waiting."""
        if not self._lock.acquire():
            return False
        if self._noted() is not None:
            self._lock.release()
            return False
        self._note()
        return True

    def keep(self) -> None:
        """Hold the lock although its file was deleted."""
        if self._lock.keep():
            self._note()

    def release(self) -> None:
        """Let another process take the lock."""
        self._lock.release()

    def holder(self) -> int | None:
        """Pid of the holder, read without taking the lock; None where nobody holds it."""
        # the lock again: its holder may have locked the new file between the other two reads
        return self._lock.holder() or self._noted() or self._lock.holder()

    def close(self) -> None:
        """Close the lock's file."""
        self._lock.close()

    def _note(self) -> None:
        self._store.note_holder(os.getpid(), self._mark(os.getpid()), self._lock.file)

    def _mark(self, pid: int) -> str:
        """The mark of a process that holds the queue of this database: a copy of the folder has the
        same row.
        """
        mark = process_mark(pid)
        return f"{mark} {self._store.identity}" if mark else ""

    def _noted(self) -> int | None:
        """The living process that holds a lock file which was deleted since."""
        noted = self._store.holder()
        if noted is None:
            return None
        pid, mark, file = noted
        if file == self._lock.file or pid == os.getpid() or self._mark(pid) != mark or not mark:
            return None
        return pid


def process_mark(pid: int) -> str | None:
    """Distinguishes a living process from a later one with the same pid; None where it ended.

    Linux: its start in clock ticks since boot. Elsewhere nothing is known, and the lock alone
    counts.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if fields[0] in "ZX" else fields[19]  # proc(5): field 22 of all, starttime

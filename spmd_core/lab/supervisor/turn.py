"""Whose turn it is to work the queue: by the file lock, and where its file was deleted, by the
database.
"""

import os
from pathlib import Path

from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.folder_lock import FolderLock


class Turn:
    """The lock of a data folder, and beside it a note in the database of who took which lock file.

    A deleted lock file frees the lock for everybody but the one who holds it. The note says who
    that
    is; it counts only where it names another file than the one at the path, and a living process.
    """

    def __init__(self, folder: Path, store: Store):
        self._lock, self._store = FolderLock(folder), store

    @property
    def held(self) -> bool:
        """Whether it is this process's turn."""
        return self._lock.held

    def take(self) -> bool:
        """Try to take the turn, without waiting."""
        if not self._lock.acquire():
            return False
        if self._noted() is not None:
            self._lock.release()
            return False
        self._note()
        return True

    def keep(self) -> None:
        """Hold the turn although the lock's file was deleted."""
        if self._lock.keep():
            self._note()

    def give_up(self) -> None:
        """Let another process have it."""
        self._lock.release()

    def holder(self) -> int | None:
        """Pid of the process whose turn it is, asked without taking it; None where it is nobody's."""
        # the lock once more: its holder may have locked the new file between the other two looks
        return self._lock.holder() or self._noted() or self._lock.holder()

    def close(self) -> None:
        """Close the lock's file."""
        self._lock.close()

    def _note(self) -> None:
        self._store.note_holder(os.getpid(), process_mark(os.getpid()) or "", self._lock.file)

    def _noted(self) -> int | None:
        """The living process that holds a lock file which was deleted since."""
        noted = self._store.holder()
        if noted is None:
            return None
        pid, mark, file = noted
        if file == self._lock.file or pid == os.getpid() or process_mark(pid) != mark:
            return None
        return pid


def process_mark(pid: int) -> str | None:
    """What tells a living process from a later one of the same number; None where it is over.

    Linux: its start in clock ticks since boot. Elsewhere nothing is known, and the lock alone
    counts.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None
    return None if fields[0] in "ZX" else fields[19]  # proc(5): field 22 of all, starttime

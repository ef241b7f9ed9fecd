"""The file locks of a data folder: who works the queue, and who has the folder open."""

import contextlib
import fcntl
import os
import secrets
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from spmd_core.base import StorageError, held_folder
from spmd_core.lab.store.store import Store

FILE_NAME = "queue.lock"
# struct flock of the platform's <fcntl.h>: type, whence, start, length and pid, in its order
_LINUX, _MAC = "hhqqi4x", "qqihh"


class FolderLock:
    """A POSIX record lock on `length` bytes from `start` of a file, or to its end. It belongs to
    the process, so there is one object per file and process.

    Its file stays open: closing any descriptor of that file would give the lock up. Where the file
    was deleted, `file` names another than the one in the folder: see `QueueLock`.
    """

    def __init__(self, folder: Path, name: str = FILE_NAME, start: int = 0, length: int = 0):
        self.held = False
        self._path, self._bytes = folder / name, (start, length)
        self._guard = threading.Lock()
        try:
            # a folder that takes its place has locks of its own
            self._folder = held_folder.hold(folder)
            self._file = self._open()
        except OSError as error:
            raise StorageError(
                f"{self._path}: {error.strerror}: name a folder that can be written "
                "in SPMD_LAB_DATA"
            ) from error

    @property
    def file(self) -> str:
        """Which file this is, whatever its path: device and inode."""
        status = os.fstat(self._file)
        return f"{status.st_dev}:{status.st_ino}"

    def acquire(self) -> bool:
        """Try to take the lock, without waiting."""
        with self._guard:
            self._renew()
            self.held = self._try_lock(self._file)
            return self.held

    def keep(self, note: Callable[[], None]) -> None:
        """Lock the file anew where somebody deleted it, and `note` that. For who holds it.

        The deleted file stays open while it is noted: a third file may get its inode.
        """
        with self._guard:
            if self.held:
                self._renew(note)

    def release(self) -> None:
        """Give the lock up."""
        with self._guard:
            if self.held:
                self.held = False
                fcntl.lockf(self._file, fcntl.LOCK_UN)

    def holder(self) -> int | None:
        """The pid of the process that holds the lock, read without taking it; None: nobody."""
        with self._guard:
            if self.held:
                return os.getpid()
            self._renew()
            return _holder(self._file, *self._bytes)

    def is_locked(self, byte: int) -> bool:
        """Whether another process has locked that byte."""
        with self._guard:
            return _holder(self._file, byte, 1) is not None

    def close(self) -> None:
        """Close the file, which gives the lock up."""
        self.held = False
        os.close(self._file)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        return os.open(self._path.name, flags, 0o600, dir_fd=self._folder.descriptor)

    def _renew(self, note: Callable[[], None] | None = None) -> None:
        """Open the file in the folder, if it is another one; locked, and noted, for who holds it."""
        with contextlib.suppress(OSError):
            here, ours = None, os.fstat(self._file)
            with contextlib.suppress(FileNotFoundError):
                here = os.stat(self._path.name, dir_fd=self._folder.descriptor)
            if here and (here.st_dev, here.st_ino) == (ours.st_dev, ours.st_ino):
                return
            new = self._open()
            if note and not self._try_lock(new):  # another process looks at it: the next time
                os.close(new)
                return
            self._file, old = new, self._file
            try:
                if note:
                    note()
            finally:
                os.close(old)
        # where the folder is gone, what is open is what there is

    def _try_lock(self, file: int) -> bool:
        start, length = self._bytes
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
        except (BlockingIOError, PermissionError):
            return False
        return True


def _holder(file: int, start: int, length: int) -> int | None:
    if sys.platform == "darwin":
        asked = struct.pack(_MAC, start, length, 0, fcntl.F_WRLCK, os.SEEK_SET)
        _, _, pid, kind, _ = struct.unpack(_MAC, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    else:
        asked = struct.pack(_LINUX, fcntl.F_WRLCK, os.SEEK_SET, start, length, 0)
        kind, _, _, _, pid = struct.unpack(_LINUX, fcntl.fcntl(file, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else pid


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
        self._lock.keep(self._note)

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


_OF_CLIENTS = "clients.lock"
_NUMBER_BITS = 40
DELETED_S = 5.0  # within which every living client locks a deleted file anew


class Clients:
    """Each client has a random number, and holds a lock on the byte of that number in one file.

    The kernel frees it with the process, however that ends; a process id may be another process's
    by then, or mean nothing in another container.
    """

    def __init__(self, folder: Path):
        self.own = secrets.randbits(_NUMBER_BITS)
        self._lock = FolderLock(folder, _OF_CLIENTS, self.own, 1)
        self._lock.acquire()
        self._doubt_until = 0.0

    def keep(self) -> None:
        """Hold the lock although its file was deleted."""
        self._lock.keep(self._doubt)

    def _doubt(self) -> None:
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

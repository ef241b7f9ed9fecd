"""The file lock of a data folder: whoever holds it works the queue."""

import fcntl
import os
import struct
import sys
from pathlib import Path

from spmd_core.errors import StorageError

FILE_NAME = "queue.lock"
# struct flock of the platform's <fcntl.h>: type, whence, start, length and pid, in the platform's order
_LINUX, _MAC = "hhqqi4x", "qqihh"


class FolderLock:
    """A POSIX record lock. It belongs to the process, so there is one object per folder and process, and its file stays open:
    closing any descriptor of that file would give the lock up."""

    def __init__(self, folder: Path):
        self.held = False
        try:
            self._file = os.open(folder / FILE_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"{folder / FILE_NAME}: {error.strerror}: name a folder that can be written in SPMD_LAB_DATA") from error

    def acquire(self) -> bool:
        """Try to take the lock, without waiting."""
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, PermissionError):
            return False
        self.held = True
        return True

    def release(self) -> None:
        """Give the lock up."""
        if self.held:
            self.held = False
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def holder(self) -> int | None:
        """The pid of the process that holds the lock, asked without taking it; None where nobody does."""
        if self.held:
            return os.getpid()
        if sys.platform == "darwin":
            asked = fcntl.fcntl(self._file, fcntl.F_GETLK, struct.pack(_MAC, 0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET))
            _, _, pid, kind, _ = struct.unpack(_MAC, asked)
        else:
            asked = fcntl.fcntl(self._file, fcntl.F_GETLK, struct.pack(_LINUX, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            kind, _, _, _, pid = struct.unpack(_LINUX, asked)
        return None if kind == fcntl.F_UNLCK else pid

    def close(self) -> None:
        """Close the file, which gives the lock up."""
        self.held = False
        os.close(self._file)

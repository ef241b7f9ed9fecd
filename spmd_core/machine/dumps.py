"""Temporary folders for a compiler's dumps, removed even if the process is killed."""

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "spmd-lab-compile-"
_HELD = ".held"  # lock file: locked while the folder's process lives
YOUNG_S = 60.0  # a folder without a lock file may be about to get one


@contextmanager
def dump_folder() -> Iterator[Path]:
    """A new folder that is removed on exit. If the process is killed, its lock is released and the
    next `sweep` of any process removes the folder.
    """
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    held = os.open(folder / _HELD, os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(held, fcntl.LOCK_EX)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def sweep() -> None:
    """Remove the folders of this user whose process is gone."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.stat().st_uid == os.getuid() and _is_left(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_left(folder: Path) -> bool:
    try:
        held = os.open(folder / _HELD, os.O_RDWR)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > YOUNG_S
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(held)
    return True


def size_bytes(folder: Path) -> int:
    """Bytes of the files in a folder, not of folders in it."""
    total = 0
    for entry in os.scandir(folder):
        with suppress(OSError):
            total += entry.stat().st_size
    return total

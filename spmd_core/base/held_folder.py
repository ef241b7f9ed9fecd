"""A data folder that this process holds by a descriptor: whether it is still at its path."""

import os
import threading
import weakref
from functools import lru_cache
from pathlib import Path

from spmd_core.base.errors import MovedFolder

_guard = threading.Lock()


class HeldFolder:
    """An open folder. `descriptor` leads to it wherever it is moved; `path` leads to it for as long
    as `check` accepts that.
    """

    def __init__(self, path: Path):
        make(path)
        self.path = path
        self.descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._identity = _identity(os.fstat(self.descriptor))
        # not at exit: what still writes then would have its descriptor lead to another folder
        weakref.finalize(self, os.close, self.descriptor).atexit = False

    def check(self) -> None:
        """Raises MovedFolder where the path leads elsewhere, or nowhere."""
        try:
            is_here = _identity(os.stat(self.path)) == self._identity
        except OSError as error:
            raise MovedFolder(
                f"the data folder {self.path} was moved or deleted while it was open "
                f"({error.strerror}), and is not read or written: put it back, or start again"
            ) from error
        if not is_here:
            raise MovedFolder(
                f"another folder took the place of the data folder {self.path} while that was "
                "open, and neither is read or written: put the first one back, or start again"
            )


@lru_cache(maxsize=64)
def resolved(folder: Path) -> Path:
    """A folder without links. Every screen reads it twice a second, so it is looked up once."""
    return folder.resolve()


_held: weakref.WeakValueDictionary[Path, HeldFolder] = weakref.WeakValueDictionary()


def hold(path: Path) -> HeldFolder:
    """Returns the folder at a path, made where it is missing; the one that this process holds
    already where it does. Raises MovedFolder where that one is elsewhere by now.
    """
    path = resolved(path.absolute())
    with _guard:
        held = _held.get(path)
        if held is None:
            held = _held[path] = HeldFolder(path)
    held.check()
    return held


def check(path: Path) -> None:
    """Raises MovedFolder where this process holds the folder of a path, and it is elsewhere."""
    if held := _held.get(resolved(path.absolute())):
        held.check()


def make(path: Path) -> None:
    """Makes a data folder, or a folder in it. Raises MovedFolder rather than to make one in place of
    a data folder that was moved away, OSError where it cannot be made.
    """
    for each in (path, path.parent):
        check(each)
    path.mkdir(mode=0o700, parents=True, exist_ok=True)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino

"""Connects to a SQLite file through its open folder, so that file and journal are always of the
same folder, whatever its path is by then.

SQLite finds a journal by name. Through a path, a connection to a file that was moved away rolls the
journal of the file that took its place back into its own.
"""

import ctypes
import functools
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

from spmd_core.base import held_folder

_NAME = b"spmd-lab"
_CANTOPEN = 14  # SQLITE_CANTOPEN
_POINTERS = (
    "open delete access full_pathname dl_open dl_error dl_sym dl_close randomness sleep time"
)


class _Vfs(ctypes.Structure):
    """sqlite3_vfs, version 3: https://sqlite.org/c3ref/vfs.html"""

    _fields_ = [
        ("version", ctypes.c_int),
        ("file_bytes", ctypes.c_int),
        ("path_bytes", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("data", ctypes.c_void_p),
        *[(name, ctypes.c_void_p) for name in _POINTERS.split()],
        *[(f"more_{number}", ctypes.c_void_p) for number in range(5)],
    ]


@ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char)
)
def _as_given(_: int, name: bytes, room: int, out: Any) -> int:
    """SQLite's own resolves links, /proc/self/fd/N among them."""
    if len(name) >= room:
        return _CANTOPEN
    ctypes.memmove(out, name + b"\0", len(name) + 1)
    return 0


@functools.cache
def _vfs() -> _Vfs | None:
    """SQLite's default way to files, but for names, which stay as they are; None where this Python's
    SQLite does not let itself be reached. SQLite refers to it for as long as the process lives.
    """
    try:
        import _sqlite3

        library = ctypes.CDLL(getattr(_sqlite3, "__file__", None))
        library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
        default = library.sqlite3_vfs_find(None)
        if default.contents.version < 3 or default.contents.name != b"unix":
            return None
        vfs = _Vfs.from_buffer_copy(default.contents)
        vfs.next, vfs.name = None, _NAME
        vfs.full_pathname = ctypes.cast(_as_given, ctypes.c_void_p).value
        library.sqlite3_vfs_register(ctypes.byref(vfs), 0)
        # another SQLite of this process may have answered
        sqlite3.connect(f"file::memory:?vfs={_NAME.decode()}", uri=True).close()
    except (AttributeError, ImportError, OSError, ValueError, sqlite3.Error):
        return None
    return vfs


def connect(
    folder: held_folder.HeldFolder, name: str, **options: Any
) -> tuple[sqlite3.Connection, bool]:
    """Opens a SQLite file of a folder; True where it is held by the folder's descriptor, False
    where it is by its path: on other systems than Linux, and a file that is a link, whose journal
    is elsewhere.
    """
    path = Path(f"/proc/self/fd/{folder.descriptor}/{name}")
    is_link = stat.S_ISLNK(os.lstat(path).st_mode) if path.exists() else False
    if is_link or not path.parent.is_dir() or _vfs() is None:
        return sqlite3.connect(folder.path / name, **options), False
    return sqlite3.connect(f"file:{path}?vfs={_NAME.decode()}", uri=True, **options), True

"""The SQLite file of a data folder as a connection for reading and one for writing; its failures
are sentences.
"""

import contextlib
import os
import sqlite3
import stat
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from spmd_core.base import MovedFolder, StorageError, held_folder, refuse, shorten
from spmd_core.lab.store import held_file
from spmd_core.lab.store.migrations import MIGRATIONS, apply

T = TypeVar("T")

FILE_NAME = "lab.sqlite3"
# a reader holds the file while it waits for its turn of the cores: 5 s were too few for a run of
# tests on 2 cores with 25 others that wanted them
BUSY_TIMEOUT_S = 15.0
_OTHERS = 0o077  # what group and others may do
_PASSED = 0o011  # of a folder: group or others reach what is in it
_INCREMENTAL = 2  # of PRAGMA auto_vacuum
_SHRINK_S, _SHRINK_PAGES = 2.0, 1000  # a delete may take so long, in steps of so many pages
_AWAY = "move the file away, or name another folder in SPMD_LAB_DATA"
_WORTH_A_VACUUM = 16 * 2**20  # bytes; it writes the file anew


class Database:
    """One data folder. Safe to use from many threads; every failure is a StorageError of one
    sentence.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.path = folder / FILE_NAME
        self._reading, self._writing = threading.Lock(), threading.Lock()
        with self._sentences():
            self.held = held_folder.hold(folder)
            self._keep_private()
            self._writer = self._connect()
            self.identity = self._identity()
            try:
                with self._sentences():
                    self._migrate()
                    self._reader = self._connect()
            except StorageError:
                self._writer.close()
                raise

    def close(self) -> None:
        """Close the file."""
        with self._reading, self._writing:
            self._reader.close()
            self._writer.close()

    def check(self) -> None:
        """Raises MovedFolder where the folder is not at its path any more, or another file is in it:
        a read would be enough to take that one's journal for this one's.
        """
        self.held.check()
        try:
            is_here = self._identity() == self.identity
        except FileNotFoundError:
            is_here = False
        if not is_here:
            raise MovedFolder(
                f"{self.path} was moved, deleted or replaced while it was open, and is not read or "
                "written: put it back, or start again"
            )

    def _identity(self) -> str:
        status = self._status()
        return f"{status.st_dev}:{status.st_ino}"

    def _status(self) -> os.stat_result:
        return os.stat(FILE_NAME, dir_fd=self.held.descriptor)

    def readable_by_others(self) -> str | None:
        """Why other users of this machine can read the file; None where they cannot."""
        with self._sentences():
            self.check()
            if not self._status().st_mode & _OTHERS or not self.folder.stat().st_mode & _PASSED:
                return None
        return (
            f"Other users of this machine can read {self.path}, and it cannot be closed to them: "
            f"run `chmod 600 {self.path}` as its owner, or name another folder in SPMD_LAB_DATA."
        )

    def _keep_private(self) -> None:
        """A file that only its user can read and write: a new one from its first byte on, an old
        one from now on, as far as its owner and file system let that happen.
        """
        # only where it is not there: closing it would give up the locks that this process has on it
        folder = self.held.descriptor
        with contextlib.suppress(FileExistsError):
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL
            os.close(os.open(FILE_NAME, flags, 0o600, dir_fd=folder))
        for name in (FILE_NAME, f"{FILE_NAME}-journal"):
            with contextlib.suppress(OSError):  # `readable_by_others` reports it
                mode = stat.S_IMODE(os.stat(name, dir_fd=folder).st_mode)
                if mode & _OTHERS:
                    os.chmod(name, mode & ~_OTHERS, dir_fd=folder)

    def used_bytes(self) -> int:
        """Bytes of the file that hold something."""
        pages = self._number("page_count") - self._number("freelist_count")
        return pages * self._number("page_size")

    def shrink(self) -> None:
        """Return free pages of the file to the disk, for at most _SHRINK_S seconds."""
        free = self._number("freelist_count")
        deadline = time.monotonic() + _SHRINK_S
        with contextlib.suppress(StorageError), self._sentences(), self._writing:
            self.check()
            if self._writer.execute("PRAGMA auto_vacuum").fetchone()[0] == _INCREMENTAL:
                while free > 0 and time.monotonic() < deadline:
                    # as a script: execute() stops after the first step, which frees one page
                    self._writer.executescript(f"PRAGMA incremental_vacuum({_SHRINK_PAGES})")
                    free -= _SHRINK_PAGES
            elif free * self._writer.execute("PRAGMA page_size").fetchone()[0] > _WORTH_A_VACUUM:
                self._writer.execute("PRAGMA auto_vacuum = INCREMENTAL")
                self._writer.execute("VACUUM")  # a file of before: incremental from now on

    def _connect(self) -> sqlite3.Connection:
        db, self.is_held = held_file.connect(
            self.held,
            FILE_NAME,
            timeout=BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        db.row_factory = sqlite3.Row
        # one damaged text must not cost the list that it is in
        db.text_factory = lambda data: data.decode("utf-8", "replace")
        # not WAL: several processes write, and many Pythons link a SQLite whose WAL can lose data
        # then (fixed in 3.51.3)
        if db.execute("PRAGMA page_count").fetchone()[0] == 0:  # before the first table, or never
            db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        for pragma in (
            "mmap_size = 0",
            "journal_mode = DELETE",
            "synchronous = FULL",
            "foreign_keys = ON",
        ):
            db.execute(f"PRAGMA {pragma}")
        return db

    def _migrate(self) -> None:
        with self._transaction() as db:
            db.execute(
                "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, applied_at REAL "
                "NOT NULL)"
            )
            applied = {str(row["name"]) for row in db.execute("SELECT name FROM migrations")}
            if unknown := applied - {name for name, _ in MIGRATIONS}:
                raise StorageError(
                    f"{self.path} has the schema step {max(unknown)!r} of a newer SPMD Lab: "
                    f"update SPMD Lab, "
                    f"or name another folder in SPMD_LAB_DATA"
                )
            for name, statements in MIGRATIONS:
                if name not in applied:
                    apply(db, statements)
                    db.execute("INSERT INTO migrations VALUES (?, ?)", (name, time.time()))

    def _number(self, pragma: str) -> int:
        return int(self._rows(f"PRAGMA {pragma}")[0][0])

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._sentences(), self._reading:
            self.check()
            return self._reader.execute(query, values).fetchall()

    def _one(self, query: str, values: Sequence[Any], make: Callable[[sqlite3.Row], T]) -> T | None:
        """What is made of the first row; None without one."""
        rows = self._rows(query, values)
        return make(rows[0]) if rows else None

    def _write(self, statement: str, values: Sequence[Any] = ()) -> int:
        """Carry out one statement; how many rows it changed."""
        with self._transaction() as db:
            return db.execute(statement, values).rowcount

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._sentences(), self._writing:
            self.check()
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _sentences(self) -> Iterator[None]:
        try:
            yield
        except UnicodeEncodeError as error:
            rule = "has what is no character, and cannot be stored or looked up"
            raise refuse(f"text {shorten(error.object)}", rule, "leave that out") from error
        except UnicodeDecodeError as error:  # SQLite quotes what it cannot read
            raise StorageError(f"{self.path}: the file is malformed: {_AWAY}") from error
        except (sqlite3.Error, OSError, zlib.error) as error:
            words = " ".join(str(getattr(error, "strerror", None) or error).split())
            raise StorageError(f"{self.path}: {words}: {_advice(error)}") from error


def _advice(error: Exception) -> str:
    words = str(error)
    for part, advice in (
        ("locked", "another program holds the database, close it and try again"),
        ("full", "make room on this disk, or name another folder in SPMD_LAB_DATA"),
        ("No space", "make room on this disk, or name another folder in SPMD_LAB_DATA"),
        ("not a database", _AWAY),
        ("malformed", _AWAY),
    ):
        if part in words:
            return advice
    return "name a folder that can be read and written in SPMD_LAB_DATA"

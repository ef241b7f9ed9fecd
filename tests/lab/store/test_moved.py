"""A data folder that is moved, replaced or deleted under an open store: nothing stored is lost."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from spmd_core.base import MovedFolder, held_folder
from spmd_core.lab.store import held_file
from spmd_core.lab.store.database import FILE_NAME
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.folder_lock import FolderLock

JOURNAL = f"{FILE_NAME}-journal"
is_linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc/self/fd")


def filled(folder: Path, count: int) -> Store:
    """A store with as many actions."""
    store = Store(folder)
    for number in range(count):
        store.note_action("ann", f"{folder.name} {number}" + "." * 2000)
    return store


def stored(folder: Path) -> int:
    """Actions in a folder as a new process reads them, which rolls a hot journal back."""
    with closing(sqlite3.connect(folder / FILE_NAME)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        return db.execute("SELECT COUNT(*) FROM actions").fetchone()[0]


@pytest.fixture
def busy(tmp_path):
    """Makes a folder with a transaction at work in another process, its journal synced: a reader
    without a lock on that file takes the journal for one that a crash left behind.
    """
    processes = []

    def made(folder: Path) -> None:
        folder.mkdir()
        held = (
            "import sqlite3, sys; db = sqlite3.connect(sys.argv[1], isolation_level=None); "
            "db.execute('CREATE TABLE IF NOT EXISTS actions (x)'); "
            "db.execute('PRAGMA cache_size = 1'); db.execute('BEGIN IMMEDIATE'); "
            "[db.execute('INSERT INTO actions VALUES (?)', ('y' * 3000,)) for _ in range(100)]; "
            "print(flush=True); sys.stdin.read()"
        )
        processes.append(
            subprocess.Popen(
                [sys.executable, "-c", held, str(folder / FILE_NAME)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        assert processes[-1].stdout and processes[-1].stdout.readline()
        assert (folder / JOURNAL).stat().st_size > 512

    yield made
    for process in processes:
        process.kill()
        process.communicate()


def test_a_plain_connection_to_a_moved_file_destroys_it(tmp_path, busy):
    """What all of this is against: SQLite finds the journal of the file that took its place."""
    there, away = tmp_path / "data", tmp_path / "away"
    filled(there, 20).close()
    with closing(sqlite3.connect(there / FILE_NAME)) as db:
        db.execute("SELECT COUNT(*) FROM actions")
        there.rename(away)
        busy(there)
        with pytest.raises(sqlite3.Error):
            db.execute("SELECT COUNT(*) FROM runs").fetchall()
    assert (away / FILE_NAME).stat().st_size <= 8192  # nothing of it is left


@pytest.mark.parametrize("use", ["read", "write", "delete", "close"])
def test_a_folder_that_was_moved_keeps_what_it_has(use, tmp_path, busy):
    there, away = tmp_path / "data", tmp_path / "away"
    store = filled(there, 20)
    there.rename(away)
    busy(there)
    uses = {
        "read": store.actions,
        "write": lambda: store.note_action("ann", "late"),
        "delete": lambda: store.delete(["a run"]),
    }
    if use in uses:
        with pytest.raises(MovedFolder, match=r"another folder took the place of .*data\b.*back"):
            uses[use]()
    store.close()
    assert stored(away) == 20


@is_linux
@pytest.mark.parametrize("use", ["read", "write"])
def test_a_folder_that_moves_between_the_check_and_the_use_keeps_what_it_has(
    use, tmp_path, busy, monkeypatch
):
    """The window that a check leaves: SQLite looks for the journal beside the open file."""
    there, away = tmp_path / "data", tmp_path / "away"
    store = filled(there, 20)
    assert store.is_held
    monkeypatch.setattr(Store, "check", lambda self: None)
    there.rename(away)
    busy(there)
    if use == "write":
        store.note_action("ann", "late")
    assert len(store.actions()) == 20 + (use == "write")
    store.close()
    assert stored(away) == 20 + (use == "write")


@is_linux
def test_a_folder_that_moves_within_a_transaction_keeps_it(tmp_path, busy):
    """The journal that is removed at the end is that of the folder, whatever is at its path."""
    there, away = tmp_path / "data", tmp_path / "away"
    store = filled(there, 20)
    with store._transaction() as db:
        db.execute("DELETE FROM actions WHERE id > 5")
        there.rename(away)
        busy(there)
    assert not (away / JOURNAL).exists() and (there / JOURNAL).exists()
    store.close()
    assert stored(away) == 5


def test_a_folder_that_is_put_back_is_read_again(tmp_path):
    there, away = tmp_path / "data", tmp_path / "away"
    store = filled(there, 3)
    there.rename(away)
    with pytest.raises(MovedFolder, match=r"data was moved or deleted while it was open \(No such"):
        store.actions()
    with pytest.raises(MovedFolder):  # no second store makes the folder anew
        Store(there)
    assert not there.exists()
    away.rename(there)
    store.note_action("ann", "back")
    assert len(store.actions()) == 4
    store.close()


def test_a_deleted_folder_is_a_sentence_and_is_not_made_again(tmp_path):
    store = filled(tmp_path / "data", 1)
    shutil.rmtree(store.folder)
    for use in (store.actions, store.readable_by_others, store.used_bytes):
        with pytest.raises(MovedFolder, match="put it back, or start again"):
            use()
    with pytest.raises(MovedFolder):
        held_folder.make(store.folder / "programs")
    assert not store.folder.exists()
    store.close()


@pytest.mark.parametrize("way", ["replaced", "deleted"])
def test_a_file_that_is_replaced_in_its_folder_is_not_touched(way, tmp_path):
    store = filled(tmp_path / "data", 3)
    store.path.rename(tmp_path / FILE_NAME)
    if way == "replaced":
        shutil.copy(tmp_path / FILE_NAME, store.path)
    with pytest.raises(MovedFolder, match=r"lab\.sqlite3 was moved, deleted or replaced"):
        store.actions()
    store.close()
    assert stored(tmp_path) == 3


def test_a_copy_in_place_of_a_deleted_folder_is_another_folder(tmp_path):
    """Its inodes may be those of the deleted one, where nobody held them."""
    there, copy = tmp_path / "data", tmp_path / "copy"
    store = filled(there, 3)
    shutil.copytree(there, copy)
    shutil.rmtree(there)
    shutil.copytree(copy, there)
    with pytest.raises(MovedFolder, match="another folder"):
        store.actions()
    store.close()


def test_locks_stay_with_their_folder(tmp_path):
    """A process that holds the queue of a folder which was moved does not lock that of the next."""
    there, away = tmp_path / "data", tmp_path / "away"
    there.mkdir()
    lock = FolderLock(there)
    assert lock.acquire()
    there.rename(away)
    there.mkdir()
    lock.keep(lambda: pytest.fail("that folder's lock is another one"))
    assert lock.holder() == os.getpid()
    assert not (there / "queue.lock").exists() and (away / "queue.lock").exists()
    lock.release()
    lock.close()


def test_a_file_that_is_a_link_keeps_the_journal_of_its_target(tmp_path):
    """Other programs look for it there."""
    elsewhere, there = tmp_path / "elsewhere", tmp_path / "data"
    filled(elsewhere, 2).close()
    there.mkdir()
    (there / FILE_NAME).symlink_to(elsewhere / FILE_NAME)
    store = Store(there)
    assert not store.is_held
    with store._transaction() as db:
        db.execute("DELETE FROM actions")
        assert (elsewhere / JOURNAL).exists()
    store.close()


def test_without_a_way_through_the_descriptor_the_path_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(held_file, "_vfs", lambda: None)
    store = filled(tmp_path / "data", 2)
    assert not store.is_held and len(store.actions()) == 2
    store.close()

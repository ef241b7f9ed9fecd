"""The database is for its user alone: a new one from its first byte on, an old one from the start on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spmd_core.lab.store.database import FILE_NAME
from spmd_core.lab.store.store import Store


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_a_new_database_in_an_open_folder_is_private(tmp_path):
    tmp_path.chmod(0o755)
    store = Store(tmp_path)
    assert mode(tmp_path / FILE_NAME) == 0o600 and store.readable_by_others() is None
    store.close()


@pytest.mark.parametrize("before", [0o644, 0o666, 0o640])
def test_an_old_one_is_closed_on_start(tmp_path, before):
    tmp_path.chmod(0o755)
    Store(tmp_path).close()
    (tmp_path / FILE_NAME).chmod(before)
    (tmp_path / f"{FILE_NAME}-journal").touch()
    (tmp_path / f"{FILE_NAME}-journal").chmod(before)
    store = Store(tmp_path)
    assert mode(tmp_path / FILE_NAME) == 0o600 and store.readable_by_others() is None
    store.close()


def test_where_it_cannot_be_closed_a_sentence_says_so(tmp_path, monkeypatch):
    tmp_path.chmod(0o755)
    Store(tmp_path).close()
    (tmp_path / FILE_NAME).chmod(0o644)

    def refused(name, mode, **how):
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patch:
        patch.setattr(os, "chmod", refused)
        store = Store(tmp_path)
    said = store.readable_by_others()
    assert said and said.startswith("Other users of this machine can read") and "chmod 600" in said
    tmp_path.chmod(0o700)
    assert store.readable_by_others() is None, "nobody else comes as far as the file"
    store.close()


def test_a_second_store_leaves_the_locks_of_the_first(tmp_path):
    """Closing a file gives up all locks that its process has on it."""
    program = (
        "import sqlite3, sys\nsqlite3.connect(sys.argv[1], timeout=0.01).execute('BEGIN IMMEDIATE')"
    )
    first = Store(tmp_path)
    with first._transaction():
        first._keep_private()
        other = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / FILE_NAME)], capture_output=True
        )
    assert b"database is locked" in other.stderr
    first.close()

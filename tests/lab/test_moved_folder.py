"""A data folder that is moved, put back or copied while a process works its queue."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

from spmd_core.base import MovedFolder
from spmd_core.lab import Lab
from spmd_core.lab.store.store import Store
from spmd_core.lab.supervisor.folder_lock import QueueLock
from spmd_core.trials import remedy_searches, searches
from tests.labs import HASTY, PATIENCE_S, ROOT, STANDIN, experiment, start_python, until

SERVE = """
import sys
from spmd_core.lab.lab import Lab
from tests.labs import HASTY, until
lab = Lab.open(settings=HASTY)
until(lambda: lab.queue_holder)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def goes_on(tmp_path, monkeypatch):
    """The runs of a test, by the stand-in engine, wait for this file before their results."""
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    monkeypatch.setenv("STANDIN_UNTIL", str(tmp_path / "goes on"))
    return tmp_path / "goes on"


@pytest.fixture
def dashboard(data_folder):
    """A process that works the queue of the folder, as a dashboard does."""
    process = start_python(SERVE, data_folder)
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.communicate()


def copied(folder, copy):
    """Copies a folder; fails, and leaves nothing, where the journal ends between list and copy."""
    try:
        return shutil.copytree(folder, copy)
    except shutil.Error:
        shutil.rmtree(copy)
        return None


@contextlib.contextmanager
def queue_of(folder):
    """The queue's lock in a folder, as another process sees it."""
    store = Store(folder)
    lock = QueueLock(folder, store)
    yield lock
    lock.close()
    store.close()


def test_the_queue_of_a_folder_that_was_moved_is_free_for_who_opens_it_there(
    dashboard, data_folder
):
    away = data_folder.with_name("away")
    data_folder.rename(away)
    with queue_of(away) as there:
        assert until(there.acquire)
        away.rename(data_folder)
        there.release()
    with queue_of(data_folder) as back:
        assert until(back.holder) == dashboard.pid


def test_the_queue_of_a_copy_is_not_held_by_who_holds_that_of_the_folder(dashboard, data_folder):
    """The copy's database names that process, too, with a lock file that is not the copy's."""
    copy = until(lambda: copied(data_folder, data_folder.with_name("copy")))
    with queue_of(copy) as there:
        assert there.holder() is None and there.acquire()


def test_nothing_is_made_where_the_folder_was(data_folder):
    lab = Lab.open(settings=HASTY)
    data_folder.rename(data_folder.with_name("away"))
    uses = [
        lambda: Lab.open().submit(experiment()),
        lab.history,
        lambda: lab.take_program(b"no program", "nothing"),
        lambda: searches.stored(lab),
        lambda: remedy_searches.store(lab),
        lambda: Lab.open(serve=False).readable_by_others,
    ]
    for use in uses:
        with pytest.raises(MovedFolder, match="was moved or deleted while it was open"):
            use()
    assert until(lambda: lab.problem)
    lab.close()
    assert not data_folder.exists()


def test_what_ran_while_the_folder_was_away_is_stored_once_it_is_back(data_folder, goes_on):
    lab = Lab.open(settings=replace(HASTY, write_s=0.3))
    run = lab.submit(experiment())
    until(lambda: lab.status(run).phase == "sample")
    away = data_folder.rename(data_folder.with_name("away"))
    goes_on.touch()
    status = lab.wait(run, PATIENCE_S)
    assert status.error.kind == "NotWritten" and "put it back" in status.error.message
    away.rename(data_folder)
    assert until(lambda: lab.status(run).state == "succeeded")
    assert lab._store.result(run) is not None


def test_a_command_line_names_what_became_of_its_folder(data_folder, monkeypatch, goes_on):
    """A folder that another took the place of is not written, and nothing of it is printed."""
    monkeypatch.setenv("SPMD_LAB_WRITE_S", "0.5")
    with subprocess.Popen(
        [sys.executable, "-m", "spmd_core", "run", "-", "--json"],
        cwd=ROOT,
        text=True,
        env=os.environ | {"SPMD_LAB_DATA": str(data_folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdin.write(json.dumps(experiment().to_json()))
        process.stdin.close()
        process.stdin = None
        until(lambda: (data_folder / "lab.sqlite3").exists())
        watcher = Store(data_folder)
        until(lambda: any(status.done for status in watcher.active()))
        watcher.close()
        data_folder.rename(data_folder.with_name("away"))
        data_folder.mkdir()
        goes_on.touch()
        _, words = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    assert "another folder took the place of the data folder" in words
    assert "Traceback" not in words and not list(data_folder.iterdir())

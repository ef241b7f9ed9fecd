"""What the screens say when much waits, when runs cannot be read, and when the store is full."""

import sqlite3
from dataclasses import replace

import pytest

from spmd_core.lab import Asker, Lab
from spmd_core.lab.store.database import FILE_NAME
from tests.labs import HASTY, experiment
from tests.ui import opened, said


@pytest.fixture
def lab(data_folder):
    """A Lab that works no queue, as the pages then find it."""
    lab = Lab.open(data_folder, serve=False, settings=replace(HASTY, stored_most_bytes=2**40))
    lab._is_wanted = lab._supervisor._is_wanted = lambda: False
    return lab


def button(screen, label):
    return next(each for each in screen.button if each.label.startswith(label))


def test_overview_shows_ten_of_a_long_queue_and_cancels_all_of_mine(lab, monkeypatch):
    monkeypatch.setattr("spmd_lab.ui.lab.viewer", lambda: "ann")
    lab._store._writer.execute("PRAGMA synchronous = OFF")
    for number in range(30):
        lab.submit(experiment(number), Asker("ann") if number < 3 else Asker())
    screen = opened()
    assert len([each for each in screen.button if each.label == "Cancel"]) == 10
    assert "And 20 more wait behind these." in said(screen)
    told = next(line for line in said(screen).splitlines() if "Queued or running" in line)
    assert told.startswith("Queued or running: 30 of at most 50 runs; yours: 3 of at most 10.")
    button(screen, "Cancel all of mine").click().run()
    assert len(lab.active()) == 27


def test_a_waiting_run_says_behind_what_and_offers_that_run(lab):
    first, second = lab.submit(experiment()), lab.submit(experiment(1))
    lab._store.start(first)
    lab._queue_lock.holder = lambda: 1  # another process is at work
    screen = opened("compare", run=second)
    assert "Behind" in said(screen) and "It is ended after 120 s" in said(screen)
    assert button(screen, "Cancel that one")


def test_history_offers_runs_that_cannot_be_read_for_deletion_and_names_unknown_ones(lab):
    lab.cancel(lab.submit(experiment()))
    lab.submit(experiment(1))
    db = sqlite3.connect(lab.folder / FILE_NAME)
    with db:
        db.execute("UPDATE experiments SET spec = '{}' WHERE spec LIKE '%\"seed\":1%'")
    db.close()
    screen = opened("history", runs="20200101-000000-abcdef")
    assert (
        "The link names 20200101-000000-abcdef, not stored here: deleted, or of another machine"
        in said(screen)
    )
    screen = opened("history")
    assert "this version cannot read its experiment" in said(screen)
    button(screen, "Delete them for good").click().run()
    assert lab.unread() == ()
    assert len(lab.history()) == 1


def test_a_full_store_offers_its_oldest_runs_for_deletion(lab):
    for number in range(3):
        lab.cancel(lab.submit(experiment(number)))
    lab._settings = replace(lab._settings, stored_most_bytes=1)
    screen = opened("history")
    assert "nothing new is taken before some runs are deleted" in said(screen)
    number = len(lab.oldest_finished(100))  # those that came with the program, too
    assert number > 3
    button(screen, f"Delete the {number} oldest finished runs").click().run()
    assert lab.history() == ()

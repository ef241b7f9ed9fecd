"""The queue on a real SQLite file: who takes which run, and what waits for a cluster."""

import time
from dataclasses import replace

import pytest

from spmd_core.lab.store.store import Store
from spmd_core.runs import COMPILING, behind
from tests.labs import experiment

ABSENT = {"target": "tpu:v5e:2x2", "mesh": {"x": 4}}


@pytest.fixture
def store(data_folder):
    store = Store(data_folder)
    yield store
    store.close()


def taken(store, which):
    """What is taken, one after another."""
    runs = []
    while status := store.next_queued(COMPILING, which):
        assert store.start(status.run)
        runs.append(status.run)
    for run in runs:
        assert store.put_back(run, None)
    return runs


def test_a_cluster_takes_what_was_asked_for_at_once_but_for_what_needs_devices_of_here(store):
    store.submit("alone", experiment(**ABSENT))
    store.submit("batch", experiment(**ABSENT), batch="a")
    store.submit("here", experiment(), batch="a", compile_only=True)
    store.submit("timed", experiment(), batch="a")
    assert taken(store, "any") == ["alone", "batch", "here"]
    assert taken(store, "of batches") == ["batch", "here"]
    assert taken(store, "for the cluster") == ["batch"]
    assert taken(store, "not for the cluster") == ["alone", "here"]


def test_what_waits_for_the_cluster_says_why_until_it_is_taken(store):
    for run, batch in (("alone", None), ("first", "a"), ("second", "a")):
        store.submit(run, experiment(**ABSENT), batch=batch)
    now = time.time()
    store.submit("later", experiment(**ABSENT), batch="a")
    begun = store.status("second").submitted_at
    assert begun <= now
    assert store.hold_up(COMPILING, "it is gone", begun) == 2
    assert {run: store.status(run).held_up for run in ("alone", "first", "second", "later")} == {
        "alone": None,
        "first": "it is gone",
        "second": "it is gone",
        "later": None,
    }
    assert store.start("first") and store.status("first").held_up is None
    in_progress = [replace(store.status("first"), state="running")]
    assert behind(store.status("second"), in_progress) is None
    assert behind(store.status("later"), in_progress) == in_progress[0]
    store.let_on()
    assert store.status("second").held_up is None


def test_a_run_goes_back_to_its_place_but_not_where_it_is_to_be_cancelled(store):
    for run in ("a", "b"):
        store.submit(run, experiment(**ABSENT), batch="a")
    assert store.start("a") and store.put_back("a", "it is gone")
    status = store.next_queued(COMPILING)
    assert (status.run, status.started_at, status.held_up) == ("a", None, "it is gone")
    assert store.start("a")
    store.ask("cancel", run="a")
    assert not store.put_back("a", "it is gone") and store.status("a").state == "starting"
    assert store.finish("a", "cancelled") and not store.put_back("a", None)

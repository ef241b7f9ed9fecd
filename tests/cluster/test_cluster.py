"""What is asked for at once, on a real Dask cluster of two worker processes: stored as what was
compiled here, also where a worker is killed, and where the scheduler goes and comes back.
"""

import threading
from dataclasses import replace

import pytest

from spmd_core.cluster import connection
from spmd_core.lab import Lab
from spmd_core.search.array_question import read_array_question
from spmd_core.searching.search import Search
from spmd_core.settings import read_settings
from spmd_core.store.searches import Searches
from tests.labs import HASTY, PATIENCE_S, STANDIN, experiment, until
from tests.standin import sitecustomize as standin

SPEC = {"workload": "elementwise", "target": "tpu:v5e:2x2", "mesh": {"x": 4}, "sharding": None,
        "dims": {"rows": 16, "cols": 8}, "strategies": ["auto"], "seed": 0}


@pytest.fixture
def open_lab(data_folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    monkeypatch.setattr(connection, "CONNECT_S", 0.5)
    monkeypatch.setattr(connection, "GONE_S", 0.5)
    labs = []

    def opened(address):
        labs.append(Lab.open(data_folder, settings=replace(HASTY, dask=address)))
        return labs[-1]

    yield opened
    for lab in labs:
        lab.close()


@pytest.fixture
def search(data_folder):
    store = Searches(data_folder)
    yield lambda lab, **changes: Search(lab, store, read_array_question(SPEC | changes), 120.0)
    store.close()


def absent(behaviour=standin.QUICK, **changes):
    return experiment(behaviour, target="tpu:v5e:2x2", mesh={"x": 4}, **changes)


def begun(search):
    thread = threading.Thread(target=search.run)
    thread.start()
    until(lambda: any(each.fate == "measured" for each in search.answer.found), 60)
    return thread


def test_a_worker_that_dies_costs_a_try_and_what_was_found_is_stored(cluster, open_lab, search):
    lab = open_lab(cluster.ready(2))
    found = search(lab)
    thread = begun(found)
    cluster.workers[0].kill()
    thread.join(90)
    assert found.state == "done" and not found.problem
    assert [each.fate for each in found.answer.found] == ["measured"] * 3
    runs = [each.run for each in found.answer.found]
    assert {each.run for each in lab.history(searched=True)} == set(runs)
    result = lab.result(runs[0])
    assert result.run == runs[0] and lab.latest(result.experiment) == runs[0]
    assert lab.texts(runs[0], "single") == {"program": "text text "}
    assert lab.devices("tpu:v5e:2x2").device_kind == "stand-in"
    assert lab.compiler_pid is None, "nothing was compiled here"


def test_what_is_cancelled_ends_on_the_cluster_too(cluster, open_lab):
    lab = open_lab(cluster.ready(1))
    first = lab.submit(absent(standin.ROUNDS), batch="a")
    assert until(lambda: (status := lab.status(first)).phase == "sample" and status).started_at
    lab.cancel(first)
    assert lab.wait(first, PATIENCE_S).state == "cancelled"
    second = lab.submit(absent(), batch="a")  # the one worker is free for it
    assert lab.wait(second, PATIENCE_S).state == "succeeded"


def test_a_sweep_waits_for_a_scheduler_that_is_gone_and_goes_on_when_it_is_back(cluster, open_lab):
    lab = open_lab(cluster.ready(1))
    points = [lab.submit(absent(standin.ROUNDS, dims={"rows": 16, "cols": size}), batch="sweep")
              for size in (8, 16, 24)]
    alone = lab.submit(absent())
    until(lambda: lab.status(points[0]).phase == "sample")
    cluster.end_scheduler()
    for run in points:
        status = until(lambda run=run: (status := lab.status(run)).held_up and status)
        assert status.state == "queued" and "is gone: start it again" in status.held_up
        assert status.waiting_for == f"the cluster: {status.held_up}"
    assert lab.wait(alone, PATIENCE_S).state == "succeeded", "which this machine compiles"
    lab.cancel(points[1])
    assert lab.status(points[1]).state == "cancelled"
    cluster.ready(1)
    until(lambda: lab.status(points[0]).phase == "sample")
    assert lab.status(points[2]).held_up is None


def test_a_search_pauses_with_a_sentence_and_goes_on_from_there(cluster, open_lab, search):
    lab = open_lab(cluster.ready(2))
    found = search(lab, seed=20)
    thread = begun(found)
    cluster.end_scheduler()
    thread.join(60)
    assert found.state == "paused" and "is gone: start it again" in found.problem
    assert found.answer.ranking[0].candidate.fate == "measured"  # what was found is kept
    known = {each.run for each in found.answer.found if each.run}
    cluster.ready(2)
    again = search(lab, seed=20)
    again.run()
    assert again.state == "done"
    assert known < {each.run for each in again.answer.found}


def test_an_address_that_does_not_answer_pauses_with_a_sentence(open_lab, search):
    found = search(open_lab("tcp://127.0.0.1:9"))
    found.run()
    assert found.state == "paused" and found.answer.ranking and not found.answer.complete
    assert "tcp://127.0.0.1:9' does not answer" in found.problem


def test_other_versions_are_named_and_an_address_is_checked():
    words = connection.differing('{"jax": "0.12", "libtpu": "1"}', '{"jax": "0.10", "libtpu": "1"}')
    assert words == "jax 0.12 beside 0.10 here"
    with pytest.raises(ValueError, match="is not the address of a Dask scheduler"):
        read_settings({"SPMD_LAB_DASK": "http://somewhere"})

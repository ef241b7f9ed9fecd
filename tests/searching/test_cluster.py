"""A search on a real Dask cluster of two worker processes, one of which is killed in mid-search."""

import os
import subprocess
import sys
import threading

import pytest

from spmd_core.lab import Lab
from spmd_core.search.array_question import read_array_question
from spmd_core.searching import cluster as clusters
from spmd_core.searching.cluster import Cluster
from spmd_core.searching.search import Search
from spmd_core.settings import read_settings
from spmd_core.store.searches import Searches
from tests.labs import HASTY, PATIENCE_S, ROOT, STANDIN, until

SPEC = {"workload": "elementwise", "target": "tpu:v5e:2x2", "mesh": {"x": 4}, "sharding": None,
        "dims": {"rows": 16, "cols": 8}, "strategies": ["auto"], "seed": 0}


@pytest.fixture
def processes(tmp_path):
    """A scheduler and two workers, whose engine takes two seconds for each candidate."""
    file, started = tmp_path / "scheduler.json", []
    environ = os.environ | {"PYTHONPATH": f"{STANDIN}{os.pathsep}{ROOT}", "STANDIN_ROUNDS": "100"}

    def start(module: str, *words: str) -> subprocess.Popen:
        with (tmp_path / f"{module}.log").open("a") as log:
            command = [sys.executable, "-m", f"distributed.cli.{module}", "--no-dashboard",
                       "--scheduler-file", str(file), *words]
            started.append(subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=log,
                                            stderr=log))
        return started[-1]

    start("dask_scheduler", "--host", "127.0.0.1", "--port", "0")
    until(lambda: file.exists() and file.read_text().endswith("}"))
    for _ in range(2):
        start("dask_worker", "--nthreads", "1", "--no-nanny", "--host", "127.0.0.1")
    yield started, file
    for process in started:
        process.kill()
        process.wait()


def address(file) -> str:
    import json

    return json.loads(file.read_text())["address"]


class Task:
    """A future as far as `finished` looks at it."""

    def __init__(self, status):
        self.status = status

    def done(self):
        return True


def test_a_result_that_was_lost_with_its_worker_is_waited_for():
    cluster = Cluster.__new__(Cluster)
    cluster._client = Task("running")  # all that is asked of it is its status, too
    lost = Task("lost")
    cluster._tasks = {lost: "what"}
    assert list(cluster.finished()) == [] and not cluster.is_idle
    lost.status = "cancelled"
    assert list(cluster.finished()) == [("what", "its task was cancelled")]


def test_a_worker_that_dies_costs_a_try_and_a_scheduler_that_goes_pauses(
        processes, data_folder, monkeypatch):
    started, file = processes
    monkeypatch.setattr(clusters, "_GONE_S", 0.5)
    lab, store = Lab.open(data_folder, settings=HASTY), Searches(data_folder)
    try:
        both = Cluster(address(file))
        until(lambda: len(both._client.scheduler_info(n_workers=-1)["workers"]) == 2)
        both.close()
        search = Search(lab, store, read_array_question(SPEC), 5 * PATIENCE_S, dask=address(file))
        thread = threading.Thread(target=search.run)
        thread.start()
        until(lambda: any(each.fate == "measured" for each in search.answer.found))
        started[1].kill()
        thread.join(PATIENCE_S)
        answer = search.answer
        assert search.state == "done" and not search.problem
        assert [each.fate for each in answer.found] == ["measured"] * 3
        assert lab.history() == ()  # nothing was compiled here

        again = Search(lab, store, read_array_question(SPEC | {"seed": 20}), 5 * PATIENCE_S,
                       dask=address(file))
        thread = threading.Thread(target=again.run)
        thread.start()
        until(lambda: any(each.fate == "measured" for each in again.answer.found))
        started[0].kill()
        thread.join(PATIENCE_S)
        assert again.state == "paused" and "is gone: start it again" in again.problem
        assert again.answer.ranking[0].candidate.fate == "measured"  # what was found is kept
    finally:
        store.close()
        lab.close()


def test_an_address_that_does_not_answer_pauses_with_a_sentence(data_folder, monkeypatch):
    monkeypatch.setattr(clusters, "CONNECT_S", 0.3)
    lab, store = Lab.open(data_folder, settings=HASTY), Searches(data_folder)
    try:
        search = Search(lab, store, read_array_question(SPEC), 5.0, dask="tcp://127.0.0.1:9")
        search.run()
        assert search.state == "paused" and search.answer.ranking and not search.answer.complete
        assert "tcp://127.0.0.1:9' does not answer" in search.problem
    finally:
        store.close()
        lab.close()


def test_other_versions_are_named_and_an_address_is_checked():
    words = clusters._differing('{"jax": "0.12", "libtpu": "1"}', '{"jax": "0.10", "libtpu": "1"}')
    assert words == "jax 0.12 beside 0.10 here"
    with pytest.raises(ValueError, match="is not the address of a Dask scheduler"):
        read_settings({"SPMD_LAB_DASK": "http://somewhere"})

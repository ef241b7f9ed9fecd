"""What is asked for at once, on a real Dask cluster of two worker processes: stored as what was
compiled here, also where a worker is killed, and where the scheduler goes and comes back.
"""

import asyncio
import threading
import zlib
from dataclasses import replace
from types import SimpleNamespace

import pytest
from distributed.comm.core import CommClosedError

from bench.cluster_liars import LIES, VERSIONS, mislead
from spmd_core.base import read_settings
from spmd_core.facts import Remedy
from spmd_core.lab import Asker, Batch, Lab, Searches
from spmd_core.lab.cluster import client, connection, remote
from spmd_core.lab.cluster.messages import Ended, Lost, Reach, Submit
from spmd_core.search import read_array_question
from spmd_core.sweeps import Asked, look, parse_sweep, start, variants
from spmd_core.trials import RemedySearch, Search, store as tried
from spmd_core.words import fact_words
from tests.cover import whole
from tests.labs import HASTY, PATIENCE_S, STANDIN, experiment, run_coroutine, until
from tests.standin import sitecustomize as standin

SPEC = {
    "workload": "elementwise",
    "target": "tpu:v5e:2x2",
    "mesh": {"x": 4},
    "sharding": None,
    "dims": {"rows": 16, "cols": 8},
    "strategies": ["auto"],
    "seed": 0,
}
SUM = {
    "workload": "contraction",
    "dims": {"rows": 4096, "cols": 1024},
    "sharding": {"rows": "x"},
    "strategies": ["auto"],
}
MANY = 20


@pytest.fixture
def open_lab(data_folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))

    def opened(address, **changes):
        return Lab.open(data_folder, settings=replace(HASTY, dask=address, **changes))

    return opened


@pytest.fixture
def search(data_folder):
    store = Searches(data_folder)
    yield lambda lab: Search(lab, store, read_array_question(SPEC), 5 * PATIENCE_S)
    store.close()


def absent(behaviour=standin.QUICK, **changes):
    return experiment(behaviour, **{"target": "tpu:v5e:2x2", "mesh": {"x": 4}} | changes)


def begun(cluster, search):
    """The thread of a search that has found the first of its three candidates."""
    thread = threading.Thread(target=search.run)
    thread.start()
    cluster.allow(1)
    until(lambda: search.problem or any(each.stage == "measured" for each in search.answer.found))
    assert not search.problem
    return thread


def sampling(lab, run):
    return until(lambda: (status := lab.status(run)).phase == "sample" and status)


def test_a_worker_that_dies_costs_a_try_and_what_was_found_is_stored(cluster, open_lab, search):
    lab = open_lab(cluster.ready(2))
    found = search(lab)
    thread = begun(cluster, found)
    cluster.workers[0].kill()
    cluster.allow(MANY)
    thread.join(PATIENCE_S)
    assert found.state == "done" and not found.problem
    assert [each.stage for each in found.answer.found] == ["measured"] * 3
    runs = [each.run for each in found.answer.found]
    assert {each.run for each in lab.history(searched=True)} == set(runs)
    result = lab.result(runs[0])
    assert result.run == runs[0] and lab.latest(result.experiment) == runs[0]
    assert lab.texts(runs[0], "single") == {"program": "text text "}
    assert lab.devices("tpu:v5e:2x2").device_kind == "stand-in"
    assert lab.compiler_pid is None, "nothing was compiled here"


# others cannot be read either: of a kind of bytes one is enough
MORE = {"no bytes", "no deflated bytes", "another state"}


@pytest.mark.parametrize(
    "lie", [pytest.param(lie, marks=[whole] * (lie in MORE)) for lie in (*LIES, *VERSIONS)]
)
def test_a_worker_that_cannot_be_read_is_named_and_left_out_and_its_candidates_go_back(
    cluster, open_lab, search, lie
):
    address = cluster.ready(1)
    (right,) = cluster.addresses()
    cluster.ready(2)
    (liar,) = cluster.addresses() - {right}
    mislead(address, liar, lie)
    lab = open_lab(address)
    found = search(lab)
    thread = threading.Thread(target=found.run)
    thread.start()
    if lie in LIES:  # the other may be known first, and would have ended all three
        until(lambda: any(each.left_out for each in lab.active()))
    cluster.allow(MANY)
    thread.join(PATIENCE_S)
    cluster.ready(1)  # without the liar
    assert found.state == "done" and not found.problem
    assert [each.stage for each in found.answer.found] == ["measured"] * 3
    (note,) = [each for each in found.answer.notes if each.kind == "workers left out"]
    assert liar in fact_words(note) and right not in fact_words(note)


def test_a_worker_that_ends_beside_one_that_cannot_be_read_is_not_blamed(cluster):
    """Dask's client asks for results together that end together, and gets all of them or none."""
    address = cluster.ready(2)
    right, liar = cluster.addresses()
    mislead(address, liar, "unpicklable")
    events, ended = [], asyncio.Queue()

    class Together(client.DaskClient):
        is_time = asyncio.Event()

        async def _follow(self, run, future):
            await future.exception()
            ended.put_nowait(run)
            await self.is_time.wait()
            await super()._follow(run, future)

    async def steps():
        found = Together(address, (), events.append)
        while found._known != {right, liar}:
            await found._workers()
        for run in "ab":
            found.submit(Submit(run=run, spec="{}", timeout_s=PATIENCE_S))
        following, placed = [*found._tasks.values()], {w: run for run, w in found._placed.items()}
        for _ in placed:
            await ended.get()
        found.is_time.set()
        await asyncio.wait(following)
        await found._drop()
        return placed

    placed = run_coroutine(steps())
    cluster.ready(0)
    (answer,) = [each for each in events if isinstance(each, Ended)]
    assert answer.run == placed[right] and '"RequestError"' in answer.compiled
    assert Lost(run=placed[liar]) in events and Lost(run=placed[right]) not in events
    told = "".join(each.left_out for each in events if isinstance(each, Reach))
    assert liar in told and right not in told


def test_a_connection_that_breaks_under_a_result_is_blamed_on_no_worker():
    breaks = [CommClosedError, ConnectionResetError]

    class Scheduler:
        async def gather(self, keys):
            if breaks:
                raise breaks.pop()
            return {"status": "OK", "data": {key: zlib.compress(b"{}") for key in keys}}

    class Finished:
        client, key, status = SimpleNamespace(scheduler=Scheduler()), "a-1", "finished"

        async def exception(self):
            return None

    events, worker = [], "tcp://127.0.0.1:2"
    found = client.DaskClient("tcp://127.0.0.1:1", (), events.append)
    found._known, found._placed = {worker}, {"a": worker}
    run_coroutine(found._follow("a", Finished()))
    assert events == [Ended(run="a", compiled="{}")] and not breaks and not found._left_out


def test_a_worker_that_is_silent_when_asked_delays_nobody(monkeypatch):
    """One that is known takes tasks meanwhile; the silent one is named, asked again, and then used."""
    here, is_there, silent = remote.versions_here(), asyncio.Event(), "tcp://127.0.0.1:2"

    class Scheduler:
        status, scheduler = "running", None

        async def run(self, _, workers, on_error):
            if workers == [silent]:
                await is_there.wait()
            return dict.fromkeys(workers, here)

    async def steps():
        found = client.DaskClient("tcp://127.0.0.1:1", (), lambda _: None)
        found.versions_s, found._client = 0.05, Scheduler()
        known = {"tcp://127.0.0.1:3"}
        await found._check(known)
        everybody = known | {silent}
        found._last_seen = dict.fromkeys(everybody, 0)
        for _ in range(2):
            await found._check(everybody)
        assert found._known == known and "does not answer within 0.05 s" in found._reach(0).left_out
        assert found._reach(0).room == client.AHEAD and silent in found._reach(0).left_out
        is_there.set()
        for _ in range(2):
            await found._check(everybody)
        assert found._known == everybody and not found._reach(0).left_out

    monkeypatch.setattr(connection, "AGAIN_S", 0.1)
    run_coroutine(steps())


def test_a_run_that_several_workers_fail_at_is_lost_and_names_them(cluster, open_lab):
    address = cluster.ready(client.MOST_REFUSED)
    liars = cluster.addresses()
    for liar in liars:
        mislead(address, liar, "an error")
    lab = open_lab(address)
    batch = Batch(lab)
    run = batch.submit(absent(), "what")
    lab.wait(run, PATIENCE_S)
    cluster.ready(0)
    ((what, words),) = batch.finished()
    assert what == "what" and batch.lost == [words] and lab.status(run).state == "crashed"
    assert "failed in its task (no space left on device)" in words
    assert all(liar in words for liar in liars)


def test_where_no_worker_is_left_a_search_pauses_and_names_them(cluster, open_lab, search):
    address = cluster.ready(1)
    (liar,) = cluster.addresses()
    mislead(address, liar, "no bytes")
    found = search(open_lab(address))
    found.run()
    cluster.ready(0)
    assert found.state == "paused" and liar in found.problem
    assert "sent what cannot be read" in found.problem and "there is no other" in found.problem
    assert not any(each.stage == "failed" for each in found.answer.found)


def test_where_all_workers_die_a_search_pauses_and_the_scheduler_is_not_called_gone(
    cluster, open_lab, search
):
    found = search(open_lab(cluster.ready(2)))
    thread = begun(cluster, found)
    cluster.ready(0)
    thread.join(PATIENCE_S)
    assert found.state == "paused" and "has no workers: start some" in found.problem


def test_what_is_cancelled_ends_on_the_cluster_too_and_what_crashes_says_why(cluster, open_lab):
    lab = open_lab(cluster.ready(1))
    first = lab.submit(absent(), Asker(batch="a"))
    status = sampling(lab, first)
    assert status.state == "running" and lab.active() == (status,)
    lab.cancel(first)
    assert lab.wait(first, PATIENCE_S).state == "cancelled"
    second = lab.submit(absent(standin.ABORT), Asker(batch="a"))  # the one worker is free for it
    status = lab.wait(second, PATIENCE_S)
    assert status.state == "crashed" and "ended by SIGABRT in compile" in status.error.message
    assert "the rendezvous was not reached" in status.stderr_tail
    assert lab.compiler_pid is None


def test_what_takes_too_long_there_is_ended_there(cluster, open_lab):
    lab = open_lab(cluster.ready(1), predict_timeout_s=0.2)
    run = lab.submit(absent(), Asker(batch="a"))
    status = lab.wait(run, PATIENCE_S)
    assert status.state == "timed_out"
    assert "the run took longer than 200 ms" in status.error.message


def test_what_would_remove_a_collective_is_compiled_there_too(cluster, open_lab):
    lab = open_lab(cluster.ready(1))
    cluster.allow(MANY)
    given = absent(standin.SUMS, **SUM, target="tpu:v5e:2x4", mesh={"x": 8})
    run = lab.submit(given, Asker(batch="a"))
    assert lab.wait(run, PATIENCE_S).state == "succeeded"
    search = RemedySearch(lab, tried(lab), lab.result(run))
    found = search.run()["auto"][0]
    assert search.state == "done" and isinstance(found, Remedy) and found.removes
    stored = lab.latest(found.experiment)
    assert stored in {each.run for each in lab.history(searched=True)}
    assert lab.texts(stored, "single") and lab.compiler_pid is None


def test_where_the_scheduler_goes_a_search_pauses_and_a_sweep_waits_until_it_is_back(
    cluster, open_lab, search
):
    lab = open_lab(cluster.ready(1))
    found = search(lab)
    thread = begun(cluster, found)
    points, asked = variants(parse_sweep(absent(), "chips=4,8,16")), Asked()
    start(Batch(lab), points, asked)
    runs = list(asked.runs.values())
    alone = lab.submit(absent())
    cluster.end()
    thread.join(PATIENCE_S)
    assert found.state == "paused" and "is gone: start it again" in found.problem
    assert found.answer.ranking[0].candidate.stage == "measured"  # what was found is kept
    until(lambda: all(each.words == found.problem for each in look(lab, points, asked)))
    assert {each.state for each in look(lab, points, asked)} == {"waiting"}
    assert lab.status(runs[0]).waiting_for == f"the cluster: {found.problem}"
    assert lab.wait(alone, PATIENCE_S).state == "succeeded", "which this machine compiles"
    lab.cancel(runs[1])
    assert lab.status(runs[1]).state == "cancelled"

    cluster.ready(1)
    sampling(lab, runs[0])
    assert lab.status(runs[2]).held_up is None
    cluster.allow(MANY)
    for run in (runs[0], runs[2]):
        assert lab.wait(run, PATIENCE_S).state == "succeeded" and lab.texts(run, "single")
    known = {each.run for each in found.answer.found if each.run}
    again = search(lab)
    again.run()
    assert again.state == "done" and known < {each.run for each in again.answer.found}


def test_an_address_that_does_not_answer_pauses_with_a_sentence(open_lab, search):
    found = search(open_lab("tcp://127.0.0.1:9"))
    found.run()
    assert found.state == "paused" and found.answer.ranking and not found.answer.complete
    assert "tcp://127.0.0.1:9' does not answer" in found.problem


def test_the_error_of_a_task_is_named():
    words = client.failed_words(ModuleNotFoundError("No module named 'spmd_core'"))
    assert words == "failed in its task (No module named 'spmd_core')"


def test_other_versions_are_named_and_an_address_is_checked():
    words = connection.differing('{"jax": "0.12", "libtpu": "1"}', '{"jax": "0.10", "libtpu": "1"}')
    assert words == "jax 0.12 beside 0.10 here"
    with pytest.raises(ValueError, match="is not the address of a Dask scheduler"):
        read_settings({"SPMD_LAB_DASK": "http://somewhere"})


def test_a_lab_that_ends_leaves_its_run_in_the_queue_and_the_worker_free(cluster, open_lab):
    address = cluster.ready(1)
    lab = open_lab(address)
    run = lab.submit(absent(), Asker(batch="a"))
    sampling(lab, run)
    lab.close()
    lab = open_lab(address)
    sampling(lab, run)
    cluster.allow(1)  # which the compile of before would take, if it were still there
    assert lab.wait(run, PATIENCE_S).state == "succeeded"

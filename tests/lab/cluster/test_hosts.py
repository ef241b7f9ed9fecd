"""Runs on the hosts of a named cluster, each a real Dask worker of this machine."""

import os
import re
import signal
import textwrap
from dataclasses import replace

import pytest

from bench.dask_processes import end
from spmd_core.base import RequestError, read_settings
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.machine import parse_target
from spmd_core.runs import Finished
from tests.cover import cover
from tests.lab.cluster.conftest import Cluster
from tests.labs import HASTY, PATIENCE_S, PATIENT, ROOT, experiment, is_running, until
from tests.standin import sitecustomize as standin
from tests.worker.test_members import ALONE, TIMING, own

MATMUL = {
    "workload": "matmul",
    "target": "cluster:pod",
    "mesh": {"x": 4},
    "dims": {"batch": 1, "m": 16, "k": 64, "n": 16},
    "sharding": {"k": "x"},
    "strategies": ["single", "auto"],
    "timing": TIMING,
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """A lab of an address: on the workers of the stand-in, one for all tests."""
    labs = []

    def lab(address):
        named = replace(PATIENT, terminate_grace_s=1, clusters=(("pod", address),))
        labs.append(Lab.open(tmp_path_factory.mktemp("data"), settings=named))
        return labs[-1]

    yield lab
    for each in labs:
        each.close()


@pytest.fixture(scope="module")
def lab(cluster, opened):
    return opened(cluster.ready(2))


def on_hosts(behaviour=standin.QUICK, target="cluster:pod"):
    return experiment(behaviour, target=target)


def members(cluster):
    """The processes of members, by the Dask worker that started each."""
    found = {}
    for worker in cluster.workers:
        listed = f"/proc/{worker.pid}/task/{worker.pid}/children"
        with open(listed) as file:
            found[worker.pid] = [int(pid) for pid in file.read().split()]
    return found


def sampling(lab, run):
    return until(lambda: (status := lab.status(run)).phase == "sample" and status)


def gone(pids):
    return until(lambda: not any(map(is_running, pids)))


def begun(cluster, lab):
    """A run that is sampled on all hosts, and its members, also after the loss of one before."""
    cluster.ready(2)
    run = lab.submit(on_hosts(standin.ROUNDS))
    sampling(lab, run)
    return run, members(cluster)


def test_a_product_over_two_hosts_is_right_and_all_have_workloads_of_ones_own(
    tmp_path, opened, monkeypatch
):
    mine, other = tmp_path / "own.py", tmp_path / "other.py"
    mine.write_text(textwrap.dedent(ALONE))
    other.write_text(textwrap.dedent(ALONE) + "\n# changed\n")
    monkeypatch.setenv("SPMD_LAB_WORKLOADS", str(mine))
    real = Cluster(tmp_path, str(ROOT))
    try:
        lab = opened(real.ready(2))
        status = lab.wait(lab.submit(parse_experiment(MATMUL)), PATIENCE_S)
        assert status.state == "succeeded", status
        result = lab.result(status.run)
        assert (result.environment.process_count, result.environment.device_count) == (2, 4)
        auto = result.strategies["auto"]
        assert auto.correct and [each.kind for each in auto.collectives] == ["all-reduce"]
        assert [(each.process, each.devices) for each in auto.hosts] == [(0, 2), (1, 2)]
        assert lab.text(status.run, "auto", "hlo"), "a long line has arrived too"
        run = lab.submit(own("summed", "auto", target="cluster:pod", devices=4))
        assert lab.wait(run, PATIENCE_S).state == "succeeded", lab.status(run).error
        lab.release()
        monkeypatch.setenv("SPMD_LAB_WORKLOADS", str(other))
        run = lab.submit(own("summed", "auto", target="cluster:pod", devices=4))
        status = lab.wait(run, PATIENCE_S)
        assert status.state == "failed" and "start it with the same" in status.error.message
        assert "the Dask worker 'tcp://127.0.0.1:" in status.error.message
    finally:
        real.end()


def test_a_run_is_cancelled_on_all_hosts_and_its_members_stay(cluster, lab):
    run, held = begun(cluster, lab)
    lab.cancel(run)
    assert lab.wait(run, PATIENCE_S).state == "cancelled"
    assert members(cluster) == held and all(held.values())
    lab.release()  # the stand-in's second member does not hear of it from the first
    assert gone([pid for pids in held.values() for pid in pids])


@pytest.mark.parametrize("behaviour", [standin.FAILS_ALONE, standin.FAILS_AT_LENGTH])
def test_a_member_that_fails_alone_ends_the_run_with_its_error(cluster, lab, behaviour):
    cluster.ready(2)
    status = lab.wait(lab.submit(on_hosts(behaviour)), PATIENCE_S)
    assert status.state == "failed" and "a mistake in this member" in status.error.message, status
    assert status.error.message.startswith("member 1 of cluster:pod (members 0 to 1; host ")


@pytest.mark.parametrize(("struck", "frozen"), cover(["member", "Dask worker"], [False, True]))
def test_a_host_that_is_lost_ends_the_run_by_name_and_frees_the_others(
    cluster, lab, struck, frozen
):
    run, held = begun(cluster, lab)
    worker = cluster.workers[0]
    (member,) = held[worker.pid]
    how = signal.SIGSTOP if frozen else signal.SIGKILL
    os.kill(worker.pid if struck == "Dask worker" else member, how)
    status = lab.wait(run, PATIENCE_S)
    assert status.state == "crashed" and "make it smaller" not in status.error.message
    assert f"process {member})" in status.error.message, status
    assert "of cluster:pod (members 0 to 1; host" in status.error.message
    assert gone([pid for pids in held.values() for pid in pids])
    if struck == "Dask worker":
        end(worker)


def test_where_all_dask_workers_die_a_member_is_named_and_not_the_scheduler(cluster, lab):
    run, _ = begun(cluster, lab)
    end(*cluster.workers)
    status = lab.wait(run, PATIENCE_S)
    assert status.state == "crashed" and "scheduler" not in status.error.message, status
    assert re.search(
        r"member \d of cluster:pod .* is gone with its Dask worker", status.error.message
    )


def test_a_frozen_scheduler_ends_the_run_and_its_members(cluster, lab):
    run, held = begun(cluster, lab)
    os.kill(cluster.scheduler.pid, signal.SIGSTOP)
    try:
        status = lab.wait(run, PATIENCE_S)
        assert status.state == "crashed" and "is gone: start it" in status.error.message
        assert gone([pid for pids in held.values() for pid in pids])
    finally:
        os.kill(cluster.scheduler.pid, signal.SIGCONT)


def test_a_host_that_joins_has_part_in_the_next_run_and_a_lab_that_ends_leaves_no_member(
    cluster, lab
):
    for hosts in (2, 3):
        cluster.ready(hosts)
        cluster.allow(1_000)
        run = lab.submit(on_hosts())
        assert lab.wait(run, PATIENCE_S).state == "succeeded", lab.status(run)
        held = [pid for pids in members(cluster).values() for pid in pids]
        assert len(held) == hosts
        if hosts == 2:
            cluster.ready(3)
            assert gone(held)
    lab.close()
    assert gone(held)


def test_a_scheduler_that_is_not_there_fails_the_run_with_a_sentence(opened):
    lab = opened("tcp://127.0.0.1:9")
    status = lab.wait(lab.submit(on_hosts()), PATIENCE_S)
    assert status.state == "failed"
    # on a busy machine the time is over before it is refused
    assert re.search(r"\(nothing listens there\)|within [\d.]+ s", status.error.message)


def test_only_the_owner_names_clusters(opened):
    lab = opened("tcp://127.0.0.1:9")
    with pytest.raises(RequestError, match="is no cluster that this server knows: use cluster:pod"):
        lab.submit(on_hosts(target="cluster:other"))
    with pytest.raises(RequestError, match="is no cluster that this server knows"):
        lab.probe("cluster")
    for text in ("cluster:tcp://10.0.0.1:1", "cluster:local", "cluster:Pod", "cluster:"):
        with pytest.raises(RequestError, match="is not a place to run"):
            parse_target(text)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("local=tcp://127.0.0.1:1", "names no cluster"),
        ("pod", "names no cluster"),
        ("Pod=tcp://127.0.0.1:1", "names no cluster"),
        ("a=tcp://127.0.0.1:1,a=tcp://127.0.0.1:2", "names a cluster twice"),
        ("a=http://127.0.0.1:1", "is not the address of a Dask scheduler"),
        ("a=tcp://10.0.0.1:1", "would send runs unencrypted"),
        ("a=tls://10.0.0.1:1", "is not a file that can be read"),
    ],
)
def test_a_wrong_name_or_address_is_refused(text, rule):
    with pytest.raises(RequestError, match=rule):
        read_settings({"SPMD_LAB_CLUSTERS": text})


def test_names_and_addresses_are_read():
    text = "a=tcp://127.0.0.1:1,pod-2=tcp://localhost:2"
    found = read_settings({"SPMD_LAB_CLUSTERS": text})
    assert found.scheduler_of("cluster:pod-2") == "tcp://localhost:2"
    assert found.cluster_targets == ("cluster:a", "cluster:pod-2")


def test_the_result_of_another_run_is_not_taken(data_folder):
    from spmd_core.lab.supervisor.active import ActiveRun
    from spmd_core.runs.states import RunStatus

    asked = RunStatus("a", "queued", on_hosts(), 0.0)
    run = ActiveRun(asked, HASTY, 0.0)
    result = standin._finished(on_hosts(standin.ROUNDS), "a", standin.describe("cpu:8")).result
    run.take(Finished(result=result))
    assert run.outcome.state == "crashed" and run.outcome.result is None

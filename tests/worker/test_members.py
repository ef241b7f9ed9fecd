"""Runs on several processes of this machine: through the queue and real workers."""

import os
import signal
import subprocess
import textwrap
import time

import pytest

from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from spmd_core.lab.supervisor.environment import worker_environment
from spmd_core.machine import parse_target, read_hardware
from tests.labs import STANDIN, experiment, is_running, until
from tests.standin import sitecustomize as standin

TARGET = "cluster:local:2x1"
TIMING = {"samples": 5, "min_seconds": 0.05}
SPEC = {
    "workload": "matmul",
    "target": TARGET,
    "mesh": {"x": 2},
    "dims": {"batch": 1, "m": 16, "k": 64, "n": 16},
    "sharding": {"k": "x"},
    "strategies": ["single", "auto", "constrained"],
    "timing": TIMING,
}


@pytest.mark.parametrize(
    ("text", "canonical", "hosts", "devices"),
    [
        ("cluster:local:2", "cluster:local:2", 2, 4),
        ("cluster:local:4x2", "cluster:local:4", 4, 8),
        ("cluster:local:3x5", "cluster:local:3x5", 3, 15),
    ],
)
def test_a_target_of_processes_is_one_of_simulated_devices(text, canonical, hosts, devices):
    target = parse_target(text)
    assert (target.text, target.hosts, target.device_count) == (canonical, hosts, devices)
    assert target.is_simulated
    environ = worker_environment(canonical, read_hardware(), {})
    assert environ["JAX_NUM_CPU_DEVICES"] == str(devices // hosts)


@pytest.mark.parametrize("text", ["cluster:local:1", "cluster:local:99", "cluster:local:2x999"])
def test_a_target_of_too_many_processes_is_refused_with_what_can_be_used(text):
    with pytest.raises(RequestError, match="use cluster:local:2"):
        parse_target(text)


ALONE = """
    import jax
    import jax.numpy as jnp

    from spmd_core.declare import workload

    DECLARED = {"operands": {"x": ("rows",)}, "results": {"y": ("rows",)}, "defaults": {"rows": 8}}


    def refuse(x):
        if jax.process_index() == 1:
            raise ValueError("this host has no table")
        return x


    @workload(**DECLARED)
    def untraceable(x):
        return refuse(2 * x)


    @workload(**DECLARED)
    def summed(x):
        return jnp.ones_like(x) * x.sum()


    def summed_shards(x):
        x = jax.pure_callback(refuse, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return jnp.ones_like(x) * jax.lax.psum(x.sum(), "x")
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """One for all: members keep what they have loaded. Some workloads of one's own fail in the second
    member alone.
    """
    folder = tmp_path_factory.mktemp("members")
    (folder / "own.py").write_text(textwrap.dedent(ALONE))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPMD_LAB_WORKLOADS", str(folder / "own.py"))
        lab = Lab.open(folder / "data")
        yield lab
        lab.close()


def own(workload: str, *strategies: str, target: str = TARGET, devices: int = 2):
    """An experiment on one of them."""
    fields = {"workload": workload, "target": target, "mesh": {"x": devices}, "timing": TIMING}
    return parse_experiment(fields | {"sharding": {"rows": "x"}, "strategies": strategies})


def test_every_process_measures(lab):
    status = lab.wait(lab.submit(parse_experiment(SPEC)), 120)
    assert status.state == "succeeded", status.error
    result = lab.result(status.run)
    assert result.environment.process_count == 2 and result.environment.device_count == 2
    for name in ("auto", "constrained"):
        outcome = result.strategies[name]
        assert outcome.correct and [each.kind for each in outcome.collectives] == ["all-reduce"]
        assert [(each.process, each.devices) for each in outcome.hosts] == [(0, 1), (1, 1)]
        assert outcome.median_s == pytest.approx(max(each.median_s for each in outcome.hosts))
    assert [each.process for each in result.strategies["single"].hosts] == [0]
    assert [each.process for each in result.hosts] == [0, 1]  # also where one device is fastest
    mapped = SPEC | {"strategies": ["pmap"], "dims": {"batch": 2}, "sharding": {"batch": "x"}}
    status = lab.wait(lab.submit(parse_experiment(mapped)), 120)
    assert "use auto or shard_map" in status.error.message, status
    small = SPEC | {"mesh": {"x": 1}, "strategies": ["auto"]}
    status = lab.wait(lab.submit(parse_experiment(small)), 120)
    assert "use a mesh of all 2 devices" in status.error.message, status
    on_hosts = {"workload": "transfer", "sharding": {"bytes": "x"}, "dims": {"bytes": 64}}
    status = lab.wait(lab.submit(parse_experiment(SPEC | on_hosts)), 120)
    moved = lab.result(status.run).strategies["auto"]
    assert moved.correct and moved.operands["x"].memory == "pinned_host", status.error


def test_what_fails_in_one_member_before_a_run_fails_in_all_and_names_it(lab):
    status = lab.wait(lab.submit(own("untraceable", "single", "auto")), 120)
    assert status.state == "succeeded", status.error
    outcomes = lab.result(status.run).strategies
    assert outcomes["single"].correct, "the first member runs it alone"
    failure = outcomes["auto"].error
    assert failure.kind == "ValueError" and "this host has no table" in failure.message
    assert failure.message.startswith("member 1 (host ") and " failed alone: " in failure.message
    status = lab.wait(lab.submit(own("summed", "auto")), 120)
    assert status.state == "succeeded", "the members go on"


def test_a_member_that_fails_alone_in_a_run_ends_it_by_name(lab):
    run = lab.submit(own("summed", "shard_map"))
    while (status := lab.status(run)).phase != "first_run" and not status.is_over:
        time.sleep(0.02)
    family = [status.worker_pid, *members_of(status.worker_pid)]
    status = lab.wait(run, 60)
    assert status.state == "failed", status
    assert status.error.message.startswith(f"member 1 of {TARGET} (members 0 to 1; host ")
    assert "this host has no table" in status.error.message
    assert "in this member alone" in status.error.message
    until(lambda: not any(map(is_running, family)))


def test_a_member_that_is_killed_ends_the_run_by_name(data_folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    lab = Lab.open(data_folder)
    run = lab.submit(experiment(standin.ROUNDS, target=TARGET, mesh={"x": 2}))
    until(lambda: lab.status(run).phase == "sample")
    first = lab.status(run).worker_pid
    (other,) = members_of(first)
    os.kill(other, signal.SIGKILL)
    status = lab.wait(run, 30)
    lab.close()
    assert status.state == "crashed"
    assert f"member 1 of {TARGET}" in status.error.message and "SIGKILL" in status.error.message
    until(lambda: not is_running(first) and not is_running(other))


def members_of(worker: int) -> list[int]:
    """The processes that a worker started."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True).stdout
    pairs = [line.split() for line in listed.splitlines()[1:]]
    return [int(pid) for pid, parent in pairs if int(parent) == worker]

"""Runs on several processes of this machine: through the queue and real workers."""

import os
import signal
import subprocess
import time

import pytest

from spmd_core.base import RequestError
from spmd_core.experiment import parse_experiment
from spmd_core.lab.lab import Lab
from spmd_core.lab.supervisor.environment import worker_environment
from spmd_core.machine import parse_target, read_hardware

TARGET = "cluster:local:2x1"
SPEC = {
    "workload": "matmul",
    "target": TARGET,
    "mesh": {"x": 2},
    "dims": {"batch": 1, "m": 16, "k": 64, "n": 16},
    "sharding": {"k": "x"},
    "strategies": ["single", "auto", "constrained"],
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


@pytest.fixture
def lab(data_folder):
    lab = Lab.open(data_folder)
    yield lab
    lab.close()


def test_every_process_measures_and_one_that_is_killed_ends_the_run_by_name(lab):
    status = lab.wait(lab.submit(parse_experiment(SPEC)), 120)
    assert status.state == "succeeded", status
    result = lab.result(status.run)
    assert result.environment.process_count == 2 and result.environment.device_count == 2
    for name in ("auto", "constrained"):
        outcome = result.strategies[name]
        assert outcome.correct and [each.kind for each in outcome.collectives] == ["all-reduce"]
        assert [(each.process, each.devices) for each in outcome.hosts] == [(0, 1), (1, 1)]
        assert outcome.median_s == pytest.approx(max(each.median_s for each in outcome.hosts))
    assert [each.process for each in result.strategies["single"].hosts] == [0]
    assert result.hosts
    long = parse_experiment(SPEC | {"timing": {"samples": 1000, "min_seconds": 60}})
    run = lab.submit(long)
    while lab.status(run).state != "running":
        time.sleep(0.05)
    first = lab.status(run).worker_pid
    (other,) = members_of(first)
    os.kill(other, signal.SIGKILL)
    status = lab.wait(run, 30)
    assert status.state == "crashed"
    assert f"member 1 of {TARGET}" in status.error.message and "SIGKILL" in status.error.message
    assert not is_alive(first) and not is_alive(other)


def members_of(worker: int) -> list[int]:
    """The processes that a worker started."""
    listed = subprocess.run(["ps", "-eo", "pid,ppid"], capture_output=True, text=True).stdout
    pairs = [line.split() for line in listed.splitlines()[1:]]
    return [int(pid) for pid, parent in pairs if int(parent) == worker]


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

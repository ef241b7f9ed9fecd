"""The process that partitions programs: kept warm, bounded, and lost without harm."""

import os
import signal
import time

import pytest

from bench.exported import MESH, sgd_step
from spmd_core.base import WorkerError
from spmd_core.experiment import parse_experiment
from spmd_core.lab.supervisor import partitioning
from spmd_core.lab.supervisor.active import ActiveRun
from spmd_core.machine import read_hardware
from spmd_core.runs import RunStatus
from spmd_core.workloads import programs
from tests.labs import HASTY, until


@pytest.fixture(scope="module")
def experiment():
    program = programs.take(sgd_step()).program
    spec = {"workload": "program_file", "program": program, "mesh": MESH, "target": "cpu:8"}
    return parse_experiment(spec)


@pytest.fixture
def asked():
    held = partitioning.Partitioning(read_hardware)
    yield held
    held.close()


def test_a_process_answers_again_and_one_that_died_is_replaced(asked, experiment):
    first = asked.ask(experiment, "auto")
    assert {each.kind for each in first.collectives} >= {"all-reduce"}
    assert asked.ask(experiment, "auto") is first
    ((child, _),) = asked._warm.values()
    changed = experiment.vary(mesh={"fsdp": 2, "tensor": 4})
    assert asked.ask(changed, "auto").seconds < first.seconds
    assert [each.pid for each, _ in asked._warm.values()] == [child.pid]
    os.kill(child.pid, signal.SIGKILL)
    child.stop(0.0)
    assert asked.ask(experiment.vary(mesh={"fsdp": 8, "tensor": 1}), "auto").collectives


def test_a_process_that_takes_too_long_is_ended(asked, experiment, monkeypatch):
    monkeypatch.setattr(partitioning, "MOST_S", 0.01)
    with pytest.raises(WorkerError, match=r"took more than 0.01 s: compile it instead"):
        asked.ask(experiment, "auto")
    assert not asked._warm


def test_time_without_a_free_core_is_not_taken(asked, experiment, monkeypatch):
    """A process that waited for a core for as long as it took has taken nothing."""
    begun = time.monotonic()
    monkeypatch.setattr(partitioning, "MOST_S", 0.01)
    monkeypatch.setattr(partitioning, "waited_s", lambda pid: time.monotonic() - begun)
    assert asked.ask(experiment, "auto").collectives


def test_a_question_that_nobody_asks_again_gives_way(asked, experiment, monkeypatch):
    monkeypatch.setattr(partitioning, "STALE_S", 0.0)
    stale = asked.asked(experiment, "auto")
    until(asked._asked.empty)  # a process is at it
    changed = experiment.vary(mesh={"fsdp": 2, "tensor": 4})
    assert asked.ask(changed, "auto").collectives
    assert stale.cancelled() and asked.asked(experiment, "auto") is not stale


def test_a_question_that_a_caller_waits_for_is_answered(asked, experiment, monkeypatch):
    monkeypatch.setattr(partitioning, "STALE_S", 0.0)
    waited = asked.asked(experiment, "auto", waits=True)
    until(asked._asked.empty)
    asked.asked(experiment.vary(mesh={"fsdp": 2, "tensor": 4}), "auto")
    assert waited.result(60).collectives


def test_a_program_that_takes_all_memory_is_to_be_predicted_and_a_workload_corrected(experiment):
    own = parse_experiment({"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}})
    for asked, words in (
        (experiment, "this program took more than 1.0 GiB"),
        (experiment, "ended: predict it for a TPU or GPU target, or make it smaller"),
        (own, "ended: correct layer, or make it smaller"),
    ):
        run = ActiveRun(RunStatus("r", "queued", asked, 0.0), HASTY, now=0.0)
        run.ate_memory(2**30)
        assert words in run.outcome.error.message

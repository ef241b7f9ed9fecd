"""The worker with the real engine: killed in every phase, ended by its timeout, short of memory."""

import os
import signal
from dataclasses import replace

import pytest

from spmd_core.lab import Lab
from spmd_core.lab.supervisor.active import ActiveRun
from tests.labs import HASTY, PATIENCE_S, PATIENT, experiment, is_running, lab_of_module, until

PHASES = ("compile", "first_run", "sample", "write")  # bench/kills.py: at any moment
LAST = ("write",)  # the whole result may be on its way before the supervisor hears of them


lab = lab_of_module(PATIENT)


def layer(**changes):
    spec = {
        "workload": "layer",
        "dims": {"batch": 64, "in": 64, "out": 32},
        "sharding": {"in": "x"},
        "strategies": ["single", "auto", "shard_map"],
        "timing": {"samples": 20, "min_seconds": 0.02},
    }
    return experiment(**(spec | changes))


def test_a_run_through_the_worker_measures_and_keeps_its_texts(lab):
    seen = []
    # long enough for some of it to be seen before its end
    run = lab.submit(layer(timing={"samples": 20, "min_seconds": 0.2}))
    status = lab.wait(run, PATIENCE_S, on_change=seen.append)
    assert (status.state, status.error) == ("succeeded", None)
    assert {status.phase for status in seen} >= {"compile", "sample"}
    result = lab.result(run)
    assert result.environment.device_count == 8
    assert {name: outcome.correct for name, outcome in result.strategies.items()} == {
        "single": True,
        "auto": True,
        "shard_map": True,
    }
    assert {len(outcome.samples_s) for outcome in result.strategies.values()} <= {10, 14, 20}
    assert lab.history()[0].medians_s == {
        name: outcome.median_s for name, outcome in result.strategies.items()
    }
    assert "shard_map" in lab.texts(run, "shard_map")["program"]
    # provisional medians came before the end
    assert any(status.medians_s for status in seen if not status.is_over)


@pytest.mark.parametrize("phase", PHASES)
def test_killing_the_worker_in_any_phase_is_a_crash(lab, phase, monkeypatch):
    killed = _killed_in(lab, phase, monkeypatch)
    run = lab.submit(layer())
    status = lab.wait(run, PATIENCE_S)
    assert killed, f"{phase} was never seen"
    if phase in LAST and status.state == "succeeded":  # the stand-in's longer result is cut
        assert lab.result(run).strategies["auto"].median_s  # nothing of what was finished is lost
        return
    assert status.state == "crashed"
    assert "SIGKILL" in status.error.message
    if phase == "sample":
        assert lab.result(run).partial
    monkeypatch.undo()
    following = lab.submit(layer(strategies=["single"], timing={"samples": 1, "min_seconds": 0}))
    assert lab.wait(following, PATIENCE_S).state == "succeeded"


def test_a_profiler_that_ends_the_worker_costs_the_trace_and_not_the_result(lab, monkeypatch):
    killed = _killed_in(lab, "profile", monkeypatch)
    run = lab.submit(layer(options={"trace": True}, strategies=["auto", "shard_map"]))
    status = lab.wait(run, PATIENCE_S)
    assert killed and (status.state, status.error) == ("succeeded", None)
    result = lab.result(run)
    assert not result.partial and all(each.correct for each in result.strategies.values())
    assert {len(each.samples_s) for each in result.strategies.values()} <= {10, 14, 20}
    sentence = result.strategies["auto"].trace.sentence
    assert sentence.startswith("not traced: JAX's profiler ended the worker process")


def _killed_in(lab, phase, monkeypatch):
    """Has the worker of each run killed as the supervisor hears of a phase: whoever asks for the
    run's status misses one of a millisecond. The list takes the worker's id.
    """
    killed, take = [], ActiveRun.take

    def take_and_kill(run, event):
        take(run, event)
        if not killed and run.status.phase == phase and (run.status.done or phase != "sample"):
            killed.append(lab.worker_pid)
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(ActiveRun, "take", take_and_kill)
    return killed


def test_a_native_computation_that_takes_too_long_is_ended(tmp_path):
    lab = Lab.open(tmp_path / "slow", settings=replace(HASTY, run_timeout_s=2.0))
    try:
        slow = layer(
            dims={"batch": 10_000, "in": 10_000, "out": 10_000}, sharding={}, strategies=["single"]
        )
        run = lab.submit(slow)
        pid = until(lambda: lab.status(run).worker_pid)
        status = lab.wait(run, PATIENCE_S)
        assert status.state == "timed_out"
        until(lambda: not is_running(pid))
    finally:
        lab.close()


def test_cancelling_keeps_the_rounds_that_were_measured(lab):
    run = lab.submit(layer(timing={"samples": 1000, "min_seconds": 30}))
    until(lambda: lab.status(run).done >= 3)
    lab.cancel(run)
    assert lab.wait(run, PATIENCE_S).state == "cancelled"
    result = lab.result(run)
    assert result.partial
    assert 3 <= len(result.strategies["auto"].samples_s) < 1000

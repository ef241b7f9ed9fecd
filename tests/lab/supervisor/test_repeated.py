"""The best rows of a study are measured in processes of their own, and so is what a plan asks for."""

import os
from dataclasses import replace

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.lab import Lab
from tests.labs import HASTY, PATIENCE_S, PATIENT, STANDIN, experiment, until
from tests.standin import sitecustomize as standin


@pytest.fixture
def lab(data_folder, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(STANDIN))
    return Lab.open(data_folder, settings=replace(PATIENT, idle_s=HASTY.idle_s))


def study(behaviour=standin.QUICK, **timing):
    """Of two variants that take as long, and one that takes twice as long."""
    alone = experiment(behaviour, strategies=["auto"], timing={"samples": 20} | timing)
    members = [
        {"name": name, "experiment": alone.to_json() | {"seed": behaviour} | changes}
        for name, changes in (
            ("one", {}),
            ("other", {"sharding": {"cols": "x"}}),
            ("slow", {"mesh": {"x": 4, "y": 2}}),
        )
    ]
    return parse_experiment({"study": members})


def measured(lab, asked, monkeypatch=None):
    status = lab.wait(lab.submit(asked), PATIENCE_S)
    return status, lab.result(status.run)


def test_the_best_are_measured_in_five_processes_where_three_are_not_clear(
    lab, data_folder, monkeypatch
):
    log = data_folder.parent / "log"
    monkeypatch.setenv("STANDIN_LOG", str(log))
    status, result = measured(lab, study())
    assert status.state == "succeeded" and not result.partial
    again = {name: len(each.again_s) for name, each in result.strategies.items()}
    assert again == {"one/auto": 4, "other/auto": 4, "slow/auto": 0}
    near, far = result.comparison.ratios
    assert (near.verdict, near.processes, near.rounds) == ("the same", 5, 100)
    assert (far.verdict, far.processes, far.rounds) == ("faster", 1, 20)
    pids = [line.split()[1] for line in log.read_text().splitlines()]
    assert len(set(pids)) == len(pids) == 5, "each in a worker process of its own"


def test_a_plan_has_a_number_of_processes_of_its_own(lab):
    _, once = measured(lab, study(processes=1))
    assert once.comparison.ratios[0].processes == 1
    assert "in this process" in once.comparison.sentence
    _, plain = measured(lab, experiment())
    assert not any(each.again_s for each in plain.strategies.values())


def test_a_further_process_that_ends_costs_only_its_rounds(lab):
    status, result = measured(lab, study(standin.ENDS_AGAIN))
    assert status.state == "succeeded" and result.comparison.ratios[0].processes == 1


def test_a_run_cancelled_in_a_further_process_keeps_what_was_measured(lab):
    run = lab.submit(study(standin.STOPS_AGAIN))
    until(lambda: lab.status(run).phase == "repeat" and lab.status(run).state == "running")
    lab.cancel(run)
    status = lab.wait(run, PATIENCE_S)
    result = lab.result(run)
    assert status.state == "cancelled" and result.partial
    assert result.comparison.ratios[0].processes == 1 and os.getpid() != lab.worker_pid

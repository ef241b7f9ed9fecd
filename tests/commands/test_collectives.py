"""The two commands that measure a machine: with the engine in this process, which measures less of it
than a worker does, and through the real worker.
"""

import json

import pytest

from spmd_core import __main__ as command_line
from spmd_core.engine.ceilings import calibration, operations
from spmd_core.engine.devices import describe
from spmd_core.engine.measured.run import run_experiment
from spmd_core.lab import Lab
from tests.ui.predictions import store


@pytest.fixture
def said(data_folder, capsys):
    """Runs a command and gives its exit code and its JSON."""

    def run(*words):
        code = command_line.main([*words, "--json"])
        out = capsys.readouterr().out
        return code, json.loads(out) if out else None

    return run


SMALLER = {
    calibration: {
        "COPY_BYTES": 2**20,
        "FIRST_SIDE": 64,
        "MOST_SIDE": 128,
        "ITEM_S": 0.01,
        "POINTS": 3,
    },
    operations: {
        "SIDES": (32, 128),
        "LOOPS": (64, 128),
        "POINT_S": 0.01,
        "BETWEEN_S": 1e-3,
    },
}


@pytest.fixture
def engine_here(data_folder, monkeypatch):
    """What is submitted is measured at once, in this process and with smaller sizes."""
    for module, changes in SMALLER.items():
        for name, value in changes.items():
            monkeypatch.setattr(module, name, value)

    def submit(lab, experiment, compile_only=False):
        run = f"20260101-000000-{experiment.id[:6]}"
        done = run_experiment(experiment, run, describe("cpu:8"), lambda event: None, lambda: False)
        store(data_folder, done.result)
        return run

    monkeypatch.setattr(Lab, "submit", submit)


def test_a_calibration_gives_each_point_of_a_later_sweep_its_prediction(engine_here, said):
    code, found = said("calibrate", "--target", "cpu:2", "--mesh", "x=2")
    assert code == 0
    ceilings = {each["name"]: each for each in found["ceilings"]}
    asked = {"copy", "copy_in_place", "matmul_float32", "matmul_bfloat16", "dispatch_mesh"}
    missing = [note for note in found["notes"] if "could not be measured" in note]
    # on a busy machine a few cannot be, each by name
    assert "dispatch_mesh" in ceilings and len(asked - {*ceilings}) <= len(missing) < len(asked)
    for each in ceilings.values():
        low, high = each["interval"]
        assert 0 < low <= each["value"] <= high and each["unit"] in ("B/s", "FLOP/s", "s")
    code, swept = said(
        "collectives",
        "--target",
        "cpu:2",
        "--mesh",
        "x=2",
        "--points",
        "2",
        "--largest",
        "65536",
        "--dtype",
        "bfloat16",
    )
    assert code == 0 and len(swept["points"]) == 10
    timed = [point for point in swept["points"] if point["error"] is None]
    for point in swept["points"]:  # on a busy machine some are refused
        assert point["error"] is None or "measure again when nothing else runs" in point["error"]
    for point in timed:
        assert point["correct"] is True and point["time_s"] > 0 and point["predicted_s"] > 0
        assert point["in_program"]
        assert point["algbw"] == pytest.approx(point["bytes"] / point["time_s"])


def test_a_topology_that_is_not_attached_is_predicted_alone(said):
    code, swept = said("collectives", "--target", "tpu:v5e:2x2", "--points", "2")
    assert code == 0 and len(swept["points"]) == 10
    assert all(point["time_s"] is None and point["predicted_s"] > 0 for point in swept["points"])


def test_another_workload_is_no_sweep(data_folder, capsys):
    assert command_line.main(["collectives", "recipe:layer"]) == 2
    assert "workload layer is no sweep of collectives" in capsys.readouterr().err

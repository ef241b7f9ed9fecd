"""Roofs and what they let expect, against numbers worked out by hand."""

import pytest

from bench.values import ENVIRONMENT, comparison, strategy
from spmd_core.experiment import parse_experiment
from spmd_core.facts import Collective
from spmd_core.results import Ceiling, Point, Result, StrategyResult
from spmd_core.roofline import Calibration, TimeModel
from spmd_core.roofline.roofline import flops, least_bytes, roofline, with_roofline
from spmd_core.terms import roofline_words

MATMUL = {
    "workload": "matmul",
    "target": "cpu:8",
    "mesh": {"x": 2, "y": 4},
    "dims": {"m": 1024, "k": 1024, "n": 1024},
    "sharding": {"m": "x", "k": "y"},
    "strategies": ["auto", "single"],
}
RATES = {
    "matmul_float32": 1e11,
    "copy": 1e9,
    "copy_in_place": 4e9,
    "dispatch_mesh": 1e-4,
    "matmul_float32_alone": 2e11,
    "copy_alone": 2e9,
    "copy_in_place_alone": 8e9,
    "dispatch_single": 1e-5,
}
CEILINGS = {
    name: Ceiling(
        name=name,
        title=name,
        value=value,
        interval=(value, value),
        unit="s" if "dispatch" in name else "B/s",
    )
    for name, value in RATES.items()
}
SUMMED = tuple(
    Point(
        kind="all-reduce",
        axes=("y",),
        devices=4,
        dtype="float32",
        bytes=nbytes,
        time_s=2e-4 + 1.5 * nbytes / 1e9,
    )
    for nbytes in (2**10, 2**22)
)
FLOPS = 2 * 1024**3 + 1024**2  # the products, and c added
SUM = Collective(kind="all-reduce", axes=("y",), bytes=2**21, count=1, group_size=4)


def test_a_device_has_its_share_of_the_work_and_its_shards_of_the_arrays():
    experiment = parse_experiment(MATMUL)
    assert flops(experiment, "single") == FLOPS
    assert flops(experiment, "auto") == FLOPS / 8
    a, b, y = (1024 * 1024 * 4 / parts for parts in (8, 4, 2))
    assert least_bytes(experiment, "auto") == a + b + 2 * y  # c is added, sharded as y
    idle = parse_experiment(MATMUL | {"sharding": {"m": "x"}})
    assert flops(idle, "auto") == FLOPS / 2  # along y all compute the same


def test_the_largest_roof_binds_and_expected_is_their_sum_by_the_rule():
    experiment = parse_experiment(MATMUL)
    found = StrategyResult(status="ok", ceilings=tuple(CEILINGS.values()), points=SUMMED)
    times = TimeModel(calibration=Calibration(found))
    roofs = roofline(experiment, "auto", [SUM], times)
    assert roofs.compute_s == pytest.approx(FLOPS / 8 / 1e11)
    assert roofs.memory_s == pytest.approx(5.77e6 / 4e9, rel=0.01)
    assert roofs.communication_s == pytest.approx(2e-4 + 1.5 * 2**21 / 1e9 - 1e-4)
    assert roofs.binds == "communication"
    alone = roofline(experiment, "single", [SUM], times)
    assert alone.communication_s == 0 and alone.dispatch_s == 1e-5 and alone.binds == "compute"
    assert roofline(experiment, "auto", [], TimeModel()) is None


def result(workload, **changes):
    strategies = {"auto": strategy(5e-3)}
    return Result.model_validate(
        {
            "run": "r",
            "experiment": parse_experiment(workload),
            "environment": ENVIRONMENT,
            "strategies": strategies,
            "comparison": comparison("auto"),
        }
        | changes
    )


def test_a_result_stands_on_the_roofs_of_its_machine():
    known = {"as_written": {"status": "ok", "ceilings": list(CEILINGS.values()), "points": SUMMED}}
    calibrated = result(
        {"workload": "calibrate", "target": "cpu:8", "mesh": {"x": 2, "y": 4}},
        strategies=known,
        comparison=None,
    )
    run = result(MATMUL | {"strategies": ["auto"]})
    found = with_roofline(run, calibrated).strategies["auto"]
    assert found.roofline.share == pytest.approx(FLOPS / 8 / 1e11 / 5e-3)
    assert found.predicted_s.low <= found.predicted_s.estimate <= found.predicted_s.high
    assert roofline_words(found.roofline).startswith(
        "54% of this machine's matmul rate, which binds; MFU 53.7%"
    )
    too_fast = found.roofline.reached(1e-3)
    assert "the ceiling is wrong; calibrate again" in roofline_words(too_fast)
    assert with_roofline(run, None) == run

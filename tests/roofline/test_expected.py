"""What a compiled program is expected to take, against numbers worked out by hand."""

import math

import pytest

from spmd_core.facts import Collective
from spmd_core.program import parse_module
from spmd_core.results import Cost, MoveCost, Operation, Point, StrategyResult
from spmd_core.roofline import (
    Calibration,
    TimeModel,
    Unknown,
    measured,
    operations_of,
    with_roofline,
)
from spmd_core.terms import roofline_words
from spmd_lab.ui.compare.beside import Pair, beside_words, median_error, spearman
from tests.roofline.test_roofline import CEILINGS, MATMUL, SUMMED, result

PROGRAM = """HloModule m, is_scheduled=true, num_partitions=4

%turned (p: f32[8,4]) -> f32[8,4] {
  %p = f32[8,4]{1,0} parameter(0)
  ROOT %copy = f32[8,4]{0,1} copy(%p)
}

%product (p: f32[16,8], q: f32[8,4]) -> f32[16,4] {
  %p = f32[16,8]{1,0} parameter(0)
  %q = f32[8,4]{1,0} parameter(1)
  ROOT %dot = f32[16,4]{1,0} dot(%p, %q), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}

ENTRY %main (a: f32[16,8], b: f32[8,4]) -> f32[16,4] {
  %a = f32[16,8]{1,0} parameter(0)
  %b = f32[8,4]{1,0} parameter(1)
  %fusion = f32[8,4]{0,1} fusion(%b), kind=kLoop, calls=%turned
  %back = f32[8,4]{1,0} copy(%fusion)
  %all-reduce = f32[8,4]{1,0} all-reduce(%back), replica_groups={{0,1},{2,3}}, to_apply=%sum
  %dot = f32[16,4]{1,0} fusion(%a, %all-reduce), kind=kCustom, calls=%product
  %tanh = f32[16,4]{1,0} tanh(%dot)
  ROOT %add = f32[16,4]{1,0} add(%tanh, %dot)
}
"""


def test_a_program_is_read_as_matmuls_loops_and_what_it_leaves():
    found = {
        (each.kind, each.sizes): each.count for each in operations_of(parse_module(PROGRAM)) or ()
    }
    assert found == {
        ("relayout", (256,)): 2,  # 8 x 4 floats, read and written, there and back
        ("matmul", (16, 8, 4)): 1,
        ("transcendental", (64,)): 1,
        ("copy", (512,)): 1,
        ("copy", (768,)): 1,
        ("result", (256,)): 1,
    }


def cost(kind, sizes, seconds):
    return Cost(operation=Operation(kind=kind, sizes=sizes), seconds=seconds)


def machine(costs=(), moves=(), points=()):
    usual = [
        cost("copy", (100,), 1e-6),
        cost("copy", (10_000,), 1e-4),
        cost("relayout", (100,), 2e-6),
        *(
            cost("matmul", (a, b, c), 2e-9 * a * b * c)
            for a in (8, 32)
            for b in (8, 32)
            for c in (8, 32)
            if b <= c
        ),
    ]
    return Calibration(
        StrategyResult(
            status="ok",
            ceilings=tuple(CEILINGS.values()),
            costs=(*usual, *costs),
            move_costs=moves,
            points=points,
        )
    )


def test_between_measured_sizes_lines_are_straight_and_beyond_them_the_rate_stays():
    here = machine()
    assert here.operation_s(Operation(kind="copy", sizes=(1000,))) == pytest.approx(1e-5)
    assert here.operation_s(Operation(kind="copy", sizes=(100_000,))) == pytest.approx(1e-3)
    assert here.operation_s(Operation(kind="copy", sizes=(1,))) == pytest.approx(1e-6)
    for sizes in ((16, 8, 32), (8, 32, 16), (64, 64, 64)):
        each = Operation(kind="matmul", sizes=sizes)
        assert here.operation_s(each) == pytest.approx(2e-9 * math.prod(sizes))


def test_a_measurement_that_took_longer_than_a_larger_one_was_disturbed():
    here = machine([cost("copy", (1000,), 5e-3)])
    assert here.operation_s(Operation(kind="copy", sizes=(1000,))) == pytest.approx(1e-4)


def test_a_small_matmul_that_was_lost_in_the_noise_is_not_taken_for_free():
    here = machine([cost("matmul", (8, 8, 8), 1e-9)])
    each = Operation(kind="matmul", sizes=(8, 8, 8), count=1)
    assert here.operation_s(each) == pytest.approx(8**3 * 1e-9)  # half of 2 ns per product


def test_a_collective_goes_by_its_axes_else_by_how_many_devices_else_by_its_points():
    moves = [
        MoveCost(kind="all-gather", axes=(axis,), devices=devices, bytes=1000, seconds=seconds)
        for axis, devices, seconds in (("x", 2, 1e-3), ("y", 4, 2e-3))
    ]
    points = [
        Point(
            kind="reduce-scatter", axes=("x",), devices=2, dtype="float32", bytes=1000, time_s=5e-4
        )
    ]
    here = TimeModel(calibration=machine(moves=moves, points=points))
    mesh = (("x", 2), ("y", 4), ("z", 4))

    def seconds(kind, axes, nbytes=1000):
        return here.collective(kind, mesh, axes, nbytes).seconds

    assert seconds("all-gather", ("y",)) == pytest.approx(2e-3)
    assert seconds("all-gather", ("z",), 2000) == pytest.approx(4e-3)
    assert seconds("reduce-scatter", ("x",)) == pytest.approx(4e-4)  # no floor
    assert isinstance(here.collective("all-to-all", mesh, ("x",), 1000), Unknown)


def test_a_result_is_expected_to_take_the_sum_of_its_operations():
    moves = [MoveCost(kind="all-reduce", axes=("y",), devices=4, bytes=2**21, seconds=1e-3)]
    here = machine(moves=moves)
    calibrated = result(
        {"workload": "calibrate", "target": "cpu:8", "mesh": {"x": 2, "y": 4}},
        strategies={"as_written": here.outcome},
        comparison=None,
    )
    run = result(MATMUL | {"strategies": ["auto"]})
    work = (
        Operation(kind="matmul", sizes=(32, 32, 32), count=10),
        Operation(kind="copy", sizes=(10_000,), count=2),
    )
    sums = (Collective(kind="all-reduce", axes=("y",), bytes=2**21, count=3, group_size=4),)
    read = run.strategies["auto"].model_copy(update={"operations": work, "collectives": sums})
    found = with_roofline(run.model_copy(update={"strategies": {"auto": read}}), calibrated)
    floor, products, copies = 1e-4, 10 * 2e-9 * 32**3, 2e-4
    assert found.strategies["auto"].predicted_s.estimate == pytest.approx(
        floor + products + copies + 3e-3
    )
    old = Calibration(here.outcome.model_copy(update={"costs": (), "points": SUMMED}))
    assert not old.is_complete and machine().is_complete


def test_one_device_alone_is_as_much_faster_as_its_ceilings():
    here = machine()
    work = [Operation(kind="matmul", sizes=(32, 32, 32)), Operation(kind="copy", sizes=(10_000,))]
    assert here.alone_s(work) == pytest.approx(1e-5 + 2e-9 * 32**3 / 2 + 1e-4 / 2)
    nothing = Calibration(StrategyResult(status="ok", costs=here.outcome.costs))
    assert math.isinf(nothing.alone_s(work))


def test_predicted_beside_measured_has_its_error_and_its_order():
    pairs = [
        Pair(str(at), f"program {at}", predicted, measured)
        for at, (predicted, measured) in enumerate(
            [(1.0, 1.0), (2.2, 2.0), (3.0, 4.0), (5.0, 8.0), (9.0, 10.0)]
        )
    ]
    assert median_error(pairs) == pytest.approx(0.1)
    assert spearman(pairs) == pytest.approx(1.0)
    assert spearman([*pairs[:2], Pair("t", "tie", 2.2, 0.5)]) == pytest.approx(0.0)
    said = beside_words(pairs)
    assert said.startswith("10% median error of 5 timed programs; rank correlation 1.00.")
    assert "Furthest off: program 3, predicted 5 s, measured 8 s" in said
    assert "calibration" in beside_words([])


def test_mfu_counts_all_devices_and_is_said_with_what_binds():
    found = with_roofline(
        result(MATMUL | {"strategies": ["auto"]}),
        result(
            {"workload": "calibrate", "target": "cpu:8", "mesh": {"x": 2, "y": 4}},
            strategies={"as_written": machine().outcome},
            comparison=None,
        ),
    ).strategies["auto"]
    assert found.roofline.mfu == pytest.approx(found.roofline.ideal_s / 5e-3)
    assert "; MFU 53." in roofline_words(found.roofline)


def test_a_run_that_ended_before_its_strategy_measured_nothing():
    one = result(MATMUL)
    ended = measured(one.model_copy(update={"strategies": {}}))
    assert ended.status == "cancelled" and ended.points == () and not Calibration(ended).is_complete

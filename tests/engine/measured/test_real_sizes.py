"""Arrays of a mebibyte and more run, are right, and are ranked: a fast part of
bench/real_sizes.py."""

import itertools
from dataclasses import astuple

import pytest

from bench.real_cells import SHAPES, Cell, declare_own, experiment_of, pairwise
from bench.real_sizes import fault
from spmd_core.engine.measured.run import run_experiment
from spmd_core.reference import sampled_rows
from spmd_core.workloads import WORKLOADS
from tests.cover import whole

STRATEGIES = ("shard_map", "constrained", "explicit", "auto", "single")
# every shape once, under one of the strategies that shard, odd and with a leading one in turns
TURNS = [
    Cell(
        shape,
        "place" if shape == "array" else STRATEGIES[number % len(STRATEGIES)],
        "int8" if "transfer" in shape else ("float32", "bfloat16", "float16")[number % 3],
        1,
        ("even", "odd")[number % 2],
        ("one", "many")[number % 4 // 2] if "transfer" not in shape else "many",
    )
    for number, shape in enumerate(SHAPES)
]
ABOVE_2_GFLOP = Cell("matmul", "auto", "float32", 16, "even", "one")
FOUND = [  # what failed at these sizes alone
    ABOVE_2_GFLOP,
    Cell("matmul", "explicit", "int32", 1, "odd", "one"),
]


@pytest.fixture(scope="module", autouse=True)
def own_function(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPMD_LAB_WORKLOADS", "")
        declare_own(tmp_path_factory.mktemp("own"))
        yield


def _parameter(cell: Cell):
    """On a newer Python half of the cells; NumPy's reference takes most of attention's."""
    every = (*TURNS, *FOUND)
    left_out = cell.shape == "attention" or every.index(cell) % 4 in (1, 2)
    marks = [pytest.mark.this_python] if left_out else []
    marks += [whole] if cell in TURNS[::2] else []
    return pytest.param(cell, marks=marks, id=cell.name)


@pytest.mark.newer_whole
@pytest.mark.parametrize("cell", [_parameter(cell) for cell in (*TURNS, *FOUND)])
def test_a_cell_runs_is_right_and_is_ranked(cell, environment):
    experiment = experiment_of(cell)
    assert experiment is not None
    result = run_experiment(experiment, "run-1", environment, lambda event: None, lambda: False)
    assert fault(cell, result.result) is None


def test_every_workload_of_arrays_has_cells():
    """Others have no arrays that can be made larger: a program as written, a model, a machine."""
    others = {"program", "decoder", "serving_step", "collectives", "calibrate"}
    assert {shape.split()[0] for shape in SHAPES} - {"scaled_softmax"} == set(WORKLOADS) - others


def test_every_pair_of_two_factors_values_is_in_some_cell():
    values = ("auto", "single"), ("float32", "int32"), (1, 4, 16), ("even", "odd"), ("one", "many")
    cells = [Cell("matmul", *row) for row in itertools.product(*values)]
    chosen = [astuple(cell) for cell in pairwise(cells)]
    assert len(chosen) < len(cells) / 3
    for one, other in itertools.combinations(range(1, 6), 2):
        assert {(row[one], row[other]) for row in chosen} == set(
            itertools.product(values[one - 1], values[other - 1])
        )


def test_sampled_rows_are_among_the_cells():
    experiment = experiment_of(ABOVE_2_GFLOP)
    assert experiment is not None and experiment.shape("y")[0] == 1
    assert sampled_rows(experiment)[0] is not None

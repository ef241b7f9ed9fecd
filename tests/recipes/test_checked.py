"""What an example expects is shown beside what its run gave."""

from bench.values import result, strategy
from spmd_core.recipes import RECIPES, checked

TOTAL = RECIPES["psum_total"]


def run(value, experiment=TOTAL.experiment):
    outputs = {"total": {"shape": [], "dtype": "int32", "values": [value]}}
    rows = {experiment.rows[0].key: strategy(1e-3, outputs=outputs)}
    made = result({"auto": rows[experiment.rows[0].key]})
    strategies = {experiment.rows[0].key: made.strategies["auto"]}
    return made.model_copy(update={"experiment": experiment, "strategies": strategies})


def cells(value, **changes):
    return [tuple(each.text for each in row) for row in checked(run(value, **changes)).rows]


def test_a_number_that_is_as_expected_and_one_that_is_not():
    assert cells(496) == [("total", "496", "496")]
    assert cells(31) == [("total", "496", "31")]


def test_a_run_of_no_example_has_none():
    other = TOTAL.experiment.vary(mesh=[["x", 2]])
    assert cells(496, experiment=other) == []

"""A cost that could not be measured is named."""

from functools import partial

from spmd_core.engine.ceilings.operations import OperationCosts, operation_name


def test_an_operation_that_could_not_be_measured_has_a_name():
    costs = OperationCosts({"mesh": None})
    names = [operation_name(measure) for measure in costs.measurements()]
    assert len(set(names)) == len(names) > 10
    assert "transcendental" in names and any(name.startswith("matmul of ") for name in names)
    assert operation_name(partial(costs._loop, "copy", 256)) == "loop of copy, 256"

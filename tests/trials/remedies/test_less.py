"""When a change helps: a collective is less, or the step of an exported program is."""

from types import SimpleNamespace

import pytest

from spmd_core.trials.remedies.judged import helps


class Costs(SimpleNamespace):
    def is_less_than(self, other):
        return self.total_s < other.total_s


def of(left_s, total_s, is_of_program=False):
    tried = SimpleNamespace(costs=Costs(total_s=total_s), is_of_program=is_of_program)
    return SimpleNamespace(tried=tried, removes=False, left_s=left_s)


@pytest.mark.parametrize(
    ("left_s", "total_s", "helped"),
    [(0.95, 0.5, False), (0.85, 0.5, True), (0.85, 2.0, False)],
)
def test_a_collective_that_stays_is_less_below_nine_tenths_of_its_time(left_s, total_s, helped):
    target, costs = SimpleNamespace(seconds=1.0), Costs(total_s=1.0)
    assert helps(target, costs, of(left_s, total_s)) is helped


@pytest.mark.parametrize(
    ("left_s", "total_s", "helped"),
    [(1.0, 0.97, True), (1.5, 0.9, True), (1.0, 0.99, False), (0.5, 0.99, True), (0.5, 1.1, False)],
)
def test_of_an_exported_program_the_time_of_the_step_decides(left_s, total_s, helped):
    target, costs = SimpleNamespace(seconds=1.0), Costs(total_s=1.0)
    assert helps(target, costs, of(left_s, total_s, is_of_program=True)) is helped

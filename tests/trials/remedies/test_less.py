"""From which share of its time on a collective that stays counts as less."""

from types import SimpleNamespace

import pytest

from spmd_core.trials.remedies.judged import helps


@pytest.mark.parametrize(
    ("left_s", "is_less", "helped"),
    [(0.95, True, False), (0.85, True, True), (0.85, False, False)],
)
def test_a_collective_that_stays_is_less_below_nine_tenths_of_its_time(left_s, is_less, helped):
    costs = SimpleNamespace(is_less_than=lambda other: is_less)
    verdict = SimpleNamespace(tried=SimpleNamespace(costs=costs), removes=False, left_s=left_s)
    assert helps(SimpleNamespace(seconds=1.0), SimpleNamespace(), verdict) is helped

"""The interval and the bounds, on sums whose numbers are known by hand."""

import math

import pytest

from spmd_core.time.cost.clocks import Tally, Walk
from spmd_core.time.cost.comm import Communication
from spmd_core.time.cost.constants import OVERLAP_HIGH, OVERLAP_LOW, UNMODELLED
from spmd_core.time.cost.module_costs import bounds, interval


def walk():
    """8 s of work, 3 gathers of 1 s over which 2 s are waited, 4 s of copies from the host that are
    hidden: 10 s.
    """
    tally = Tally()
    tally.work["matmul"], tally.work["kernel"] = 6.0, 2.0
    tally.faster["matmul"], tally.slower["matmul"], tally.slower["kernel"] = 0.3, 0.4, 0.6
    tally.note(
        Communication("all-gather", 1, 1.0, ("ici x+",), (0, 1), "x", True, None, "gather", None),
        "gather",
        3,
        2.0,
    )
    tally.links["ici x+"], tally.links["host in"], tally.waits["all-gather"] = 3.0, 4.0, 2.0
    return Walk(10.0, tally, [])


def test_bounds_are_the_busiest_resource_and_the_sum_of_all():
    assert bounds(walk()) == (8.0, 8.0 + 3.0 + 4.0)


def test_bounds_enclose_the_estimate():
    busy = walk()
    busy.tally.links["ici x+"] = 30.0
    assert bounds(busy)[0] == busy.seconds


def test_what_may_be_off_adds_up_as_squares():
    low, high = interval(walk())
    assert low == pytest.approx(
        10 - math.sqrt(0.3**2 + (OVERLAP_LOW * 2) ** 2 + (UNMODELLED * 10) ** 2)
    )
    assert high == pytest.approx(
        10 + math.sqrt(0.4**2 + 0.6**2 + (OVERLAP_HIGH * 5) ** 2 + (UNMODELLED * 10) ** 2)
    )


def test_sums_of_a_loop_are_multiplied_out():
    tally = Tally()
    tally.add(walk().tally, 3)
    assert (tally.faster["matmul"], tally.slower["kernel"], tally.work["matmul"]) == pytest.approx(
        (0.9, 1.8, 18.0)
    )
    assert tally.communications["gather"][1:] == (9, 6.0)


def test_low_is_not_below_what_the_program_takes_at_nominal_rates():
    """However much of the waiting may be hidden, what cannot overlap does not."""
    assert interval(walk(), least=9.5)[0] == 9.5
    assert interval(walk(), least=11.0)[0] == 10.0  # nor above the estimate

"""How many published steps and efficiencies the ranges of estimates hold, as the screens word it."""

from bench.published_steps import efficiencies, is_held, unfitted
from spmd_core.sweeps import EFFICIENCIES, PUBLISHED_SPAN
from spmd_core.words.predictions import HELD, PUBLISHED, RANGES_WORDS


def test_the_ranges_hold_as_many_published_steps_as_the_screens_word():
    rows = unfitted()
    assert (sum(map(is_held, rows)), len(rows)) == (HELD, PUBLISHED)
    assert f"hold {HELD} of {PUBLISHED} published steps" in RANGES_WORDS


def test_the_range_of_an_efficiency_is_that_of_the_published_ones():
    over = efficiencies()
    assert len(over) == EFFICIENCIES and min(over) < 1 < max(over)
    assert (round(min(over), 2), round(max(over), 2)) == PUBLISHED_SPAN

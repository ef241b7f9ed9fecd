"""How many published steps and efficiencies the ranges of estimates hold, as the screens word it."""

from bench import memory_random
from bench.published_steps import efficiencies, is_held, unfitted
from spmd_core.sweeps import EFFICIENCIES, PUBLISHED_SPAN
from spmd_core.words.predictions import (
    HELD,
    PEAKS,
    PEAKS_HELD,
    PEAKS_WORDS,
    PUBLISHED,
    RANGES_WORDS,
)


def test_the_ranges_hold_as_many_published_steps_as_the_screens_word():
    rows = unfitted()
    assert (sum(map(is_held, rows)), len(rows)) == (HELD, PUBLISHED)
    assert f"hold {HELD} of {PUBLISHED} published steps" in RANGES_WORDS


def test_the_ranges_of_memory_hold_as_many_compiled_peaks_as_the_screens_word():
    assert memory_random.held() == (PEAKS_HELD, PEAKS)
    assert f"hold {PEAKS_HELD} of {PEAKS} compiled peaks" in PEAKS_WORDS


def test_the_range_of_an_efficiency_is_that_of_the_published_ones():
    over = efficiencies()
    assert len(over) == EFFICIENCIES and min(over) < 1 < max(over)
    assert (round(min(over), 2), round(max(over), 2)) == PUBLISHED_SPAN

"""How many published steps the ranges of estimates hold, as the screens word it."""

from bench.published_steps import is_held, unfitted
from spmd_core.words.predictions import HELD, PUBLISHED, RANGES_WORDS


def test_the_ranges_hold_as_many_published_steps_as_the_screens_word():
    rows = unfitted()
    assert (sum(map(is_held, rows)), len(rows)) == (HELD, PUBLISHED)
    assert f"hold {HELD} of {PUBLISHED} published steps" in RANGES_WORDS

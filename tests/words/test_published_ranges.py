"""How many published steps and efficiencies the ranges of estimates hold, as the screens word it."""

from bench import memory_random
from bench.published_steps import ROWS, efficiencies, error_of, is_held, plan_of, unfitted
from spmd_core.sweeps import EFFICIENCIES, PUBLISHED_SPAN
from spmd_core.time.estimate.constants import TOOK_LONGER_ON
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


def test_a_range_reaches_the_published_steps_of_chips_on_which_all_took_longer():
    """The factors that are stated are those of the published rows, and no other kind has such rows."""
    over: dict[str, list[float]] = {}
    for row in ROWS:
        chip = plan_of(row).topology.chip.generation
        over.setdefault(chip, []).append(1 / (1 + error_of(row)))
        assert chip not in TOOK_LONGER_ON or is_held(row)
    for chip, (count, least, most) in TOOK_LONGER_ON.items():
        known = (len(over[chip]), round(min(over[chip]), 2), round(max(over[chip]), 2))
        assert known == (count, least, most)


def test_the_ranges_of_memory_hold_as_many_compiled_peaks_as_the_screens_word():
    assert memory_random.held() == (PEAKS_HELD, PEAKS)
    assert f"hold {PEAKS_HELD} of {PEAKS} compiled peaks" in PEAKS_WORDS


def test_the_range_of_an_efficiency_is_that_of_the_published_ones():
    over = efficiencies()
    assert len(over) == EFFICIENCIES and min(over) < 1 < max(over)
    assert (round(min(over), 2), round(max(over), 2)) == PUBLISHED_SPAN

"""Published rates of collectives, against the model."""

import pytest

from spmd_core.roofline import PUBLISHED, published_span


def test_published_collectives_take_as_long_as_predicted_at_large_sizes_and_longer_at_small_ones():
    gathered, summed = PUBLISHED
    times = [times for _, times in gathered.ratios()]
    assert times == sorted(times, reverse=True), "latency is more than predicted"
    assert times[-1] == pytest.approx(1.0, abs=0.02) and times[0] < 1.35
    assert published_span() == (times[-1], summed.ratios()[0][1])
    assert summed.devices == 256 and 1.4 < published_span()[1] < 1.6

"""Published rates of collectives, against the model."""

import pytest

from spmd_core.roofline import PUBLISHED, published_spans


def test_published_collectives_take_as_long_as_predicted_at_large_sizes_and_longer_at_small_ones():
    gathered, summed = PUBLISHED
    times = [times for _, times in gathered.ratios()]
    assert times == sorted(times, reverse=True), "latency is more than predicted"
    assert times[-1] == pytest.approx(1.0, abs=0.02) and times[0] < 1.35
    slowest = summed.ratios()[0][1]
    assert published_spans() == {
        "all-gather": (times[-1], times[0]),
        "all-reduce": (slowest, slowest),
    }
    assert summed.devices == 256 and 1.4 < slowest < 1.6

"""The chart of predicted against measured."""

from spmd_core.time.bandwidth.accuracy import Pair
from ui.charts.beside import beside_chart


def test_each_pair_is_a_point_between_lines_of_equal_and_of_a_quarter_off():
    pairs = [Pair("r", "one", 2e-3, 1e-3), Pair("s", "other", 5e-3, 8e-3)]
    *lines, points = beside_chart(pairs)["layer"]
    assert len(lines) == 3
    assert [
        (each["measured"], each["predicted"], each["error"]) for each in points["data"]["values"]
    ] == [(1.0, 2.0, "+100%"), (8.0, 5.0, "-38%")]
    low, high = points["encoding"]["x"]["scale"]["domain"]
    assert low < 1.0 and high > 8.0

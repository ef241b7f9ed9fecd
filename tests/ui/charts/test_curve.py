"""The curves of a training run as charts."""

import pytest

from spmd_core.results.curves import by_curve, labelled, steps_drawn, thinned
from ui.charts.curve import curve_alt, curve_chart

vl_convert = pytest.importorskip("vl_convert")


def rows(chart):
    return chart["layer"][0]["data"]["values"]


def test_a_curve_has_a_point_for_each_step_and_strategies_differ_by_dashes_too():
    chart = curve_chart(
        "loss", {"single": [4.0, 2.0, 1.0], "shard_map": [4.0, 2.0, 1.0]}, [0, 1, 2]
    )
    assert [(row["row"], row["step"], row["y"]) for row in rows(chart)[:2]] == [
        ("Single device", 1, 4.0),
        ("Single device", 2, 2.0),
    ]
    assert len(rows(chart)) == 6
    encoding = chart["layer"][0]["encoding"]
    assert encoding["color"] == encoding["strokeDash"]
    assert encoding["y"]["title"] == "loss" and "type" not in encoding["y"]["scale"]
    assert vl_convert.vegalite_to_svg(chart).startswith("<svg")


def test_a_steep_curve_is_drawn_on_a_logarithmic_axis():
    axis = curve_chart("loss", {"auto": [100.0, 1.0]}, [0, 1])["layer"][0]["encoding"]["y"]
    assert (axis["title"], axis["scale"]) == ("loss, logarithmic", {"type": "log"})


def test_the_time_of_a_step_has_a_unit():
    chart = curve_chart("step_s", {"auto": [2e-3, 3e-3]}, [0, 1])
    assert chart["layer"][0]["encoding"]["y"]["title"] == "time of a step (ms)"
    assert [row["y"] for row in rows(chart)] == pytest.approx([2.0, 3.0])
    assert (
        curve_alt("step_s", {"auto": [2e-3, 3e-3]})
        == "Time of a step by step, from the first to the last: Automatic 2 ms to 3 ms"
    )


def test_the_loss_is_told_in_words():
    assert (
        curve_alt("loss", {"single": [24.59, 4.13]})
        == "Loss by step, from the first to the last: Single device 24.59 to 4.13"
    )


def test_streamed_curves_find_their_steps_again():
    losses = [1.0 / (step + 1) for step in range(1000)]
    series = {labelled("loss", "pmap(vmap)"): thinned(losses)}
    assert by_curve(series) == {"loss": {"pmap(vmap)": thinned(losses)}}
    assert [losses[step] for step in steps_drawn(1000)] == list(thinned(losses))

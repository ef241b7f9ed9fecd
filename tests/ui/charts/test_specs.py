"""Every chart is written as a dict, for speed; Altair, which carries the schema of Vega-Lite, says
whether it is one.
"""

import altair
import pytest

from bench.values import result, strategy
from spmd_core.experiment import layout
from spmd_core.facts import by_curve, labelled, steps_drawn, thinned
from spmd_lab.ui.charts.base import layer, layered, quantity
from spmd_lab.ui.charts.by_strategy import (
    live_chart,
    memory_chart,
    phases_chart,
    ratios_chart,
    side_by_side_chart,
)
from spmd_lab.ui.charts.curve import curve_alt, curve_chart
from spmd_lab.ui.charts.times import times_chart
from spmd_lab.ui.compare.beside import Pair, beside_chart
from spmd_lab.ui.layout.picture import picture

vl_convert = pytest.importorskip("vl_convert")


MEMORY = {"argument": 3 * 2**20, "output": 2**20, "temp": 2**10, "peak": 2**22}
PHASES = {"trace": 0.01, "lower": 0.002, "compile": 0.05, "first_run": 1e-3}
FOUND = result(
    {
        "single": strategy(1e-5, memory_bytes=MEMORY, phases_s=PHASES),
        "auto": strategy(2e-5, memory_bytes=MEMORY, phases_s=PHASES),
    }
)


def layout_picture():
    spec = picture(layout((("x", 2), ("y", 4)), (4, 8), (("x",), ("y",))), "float32")
    return spec | {"datasets": {name: data.to_pylist() for name, data in spec["datasets"].items()}}


CHARTS = {
    "times": lambda: times_chart(FOUND),
    "times far apart": lambda: times_chart(
        result({"single": strategy(1e-5), "auto": strategy(1e-2)})
    ),
    "phases": lambda: phases_chart(FOUND),
    "memory": lambda: memory_chart(FOUND),
    "live": lambda: live_chart({"auto": 2e-3}, result({"auto": strategy(1e-3)}).experiment),
    "side by side": lambda: side_by_side_chart([("A", FOUND), ("B", FOUND)]),
    "ratios": lambda: ratios_chart({"B": (1.2, 0.9, 1.6)}, "A", ["A", "B"], "99% interval"),
    "loss": lambda: curve_chart("loss", {"auto": [1.0, 0.5, 0.25]}, [0, 1, 2]),
    "layout": layout_picture,
}


def validate(spec):
    altair.Root.validate(spec)


@pytest.mark.parametrize("name", CHARTS)
def test_the_chart_keeps_the_schema_of_vega_lite(name):
    validate(CHARTS[name]())


def test_a_chart_that_breaks_the_schema_is_found():
    broken = times_chart(FOUND)
    broken["layer"][0]["mark"] = {"type": "bar", "opacity": "faint"}
    with pytest.raises(Exception, match="faint"):
        validate(broken)


def test_each_pair_is_a_point_between_lines_of_equal_and_of_a_quarter_off():
    pairs = [Pair("r", "one", 2e-3, 1e-3), Pair("s", "other", 5e-3, 8e-3)]
    *lines, points = beside_chart(pairs)["layer"]
    assert len(lines) == 3
    assert [
        (each["measured"], each["predicted"], each["error"]) for each in points["data"]["values"]
    ] == [(1.0, 2.0, "+100%"), (8.0, 5.0, "-38%")]
    low, high = points["encoding"]["x"]["scale"]["domain"]
    assert low < 1.0 and high > 8.0


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


def test_a_layer_without_a_mark_is_left_out():
    """A screen reader would find a picture without a text."""
    bars = layer([{"x": 1.0}], "bar", x=quantity("x"))
    assert layered([bars, layer([], "point", x=quantity("x"))], 40)["layer"] == [bars]

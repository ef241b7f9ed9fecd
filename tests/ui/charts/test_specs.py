"""Every chart is written as a dict, for speed; Altair, which carries the schema of Vega-Lite, says
whether it is one.
"""

import altair
import pytest

from bench.values import result, strategy
from spmd_core.experiment.layout import layout
from ui.charts.by_strategy import live_chart, memory_chart, phases_chart, side_by_side_chart
from ui.charts.curve import curve_chart
from ui.charts.times import times_chart
from ui.layout.picture import picture

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
    "live": lambda: live_chart({"auto": 2e-3}, ("single", "auto")),
    "side by side": lambda: side_by_side_chart([("A", FOUND), ("B", FOUND)]),
    "loss": lambda: curve_chart("loss", {"auto": [1.0, 0.5, 0.25]}, [0, 1, 2]),
    "layout": layout_picture,
}


def validate(spec):
    altair.Chart.from_dict(spec, validate=True)


@pytest.mark.parametrize("name", CHARTS)
def test_the_chart_keeps_the_schema_of_vega_lite(name):
    validate(CHARTS[name]())


def test_a_chart_that_breaks_the_schema_is_found():
    broken = times_chart(FOUND)
    broken["layer"][0]["mark"] = {"type": "bar", "opacity": "faint"}
    with pytest.raises(Exception, match="faint"):
        validate(broken)

"""The Collectives screen: one target on it, and every figure of its card on a curve."""

import json
import re

import pytest

from spmd_core.experiment import link, parse_experiment
from spmd_core.machine import accelerator_files
from tests.ui import opened, said


def charts(screen):
    return [json.loads(each.proto.spec) for each in screen.get("vega_lite_chart")]


def labels(spec):
    """Every text that a chart draws."""
    return [
        str(row[layer["encoding"]["text"]["field"]])
        for layer in spec["layer"]
        if "text" in layer["encoding"]
        for row in layer["data"]["values"]
    ]


def figures(screen):
    """The figures of the card: value by title."""
    (words,) = (each.proto.body for each in screen.get("html") if 'class="five"' in each.proto.body)
    return dict(re.findall(r'<span>([^<]*)</span><b class="figure">([^<]*)</b>', words))


@pytest.mark.skipif(bool(accelerator_files()), reason="the default is what is attached")
def test_without_an_accelerator_the_target_is_one_chip_generation_predicted(data_folder):
    screen = opened("collectives")
    target = next(each for each in screen.selectbox if each.label == "Target")
    assert target.value == "tpu:v5e:2x4" and "cpu" not in said(screen)
    curve, ranking = charts(screen)
    time = figures(screen)["16.0 MiB per device"]
    assert f"An all-reduce of 16.0 MiB takes {time} on v5e:2x4." in said(screen)
    assert any(f"predicted {time}" in label for label in labels(curve))
    assert "Predicted" in said(screen) and "Estimated" not in said(screen)
    half = f"half the bandwidth from {figures(screen)['Half bandwidth from']}"
    assert half in labels(curve)
    assert [label.split(" · ", 2)[2] for label in labels(ranking) if label.count(" · ") > 1] == [
        "one link only",
        "half crosses the middle",
    ]
    assert "4 of 8" in said(screen), "the picture has fewer devices than the group"
    assert len(labels(ranking)) == 5


@pytest.mark.parametrize("over", ["x+y", "y"])
@pytest.mark.parametrize("view", ["Bus bandwidth", "Time"])
def test_the_ranking_is_of_the_largest_size_the_best_first(data_folder, over, view):
    screen = opened("collectives", tab=over, view=view)
    ranking = charts(screen)[1]
    bars = ranking["layer"][0]["data"]["values"]
    values = [row["y"] for row in bars]
    assert values == sorted(values, reverse=view != "Time") and len({*values}) > 1
    assert ranking["layer"][0]["encoding"]["x"]["scale"].get("type") is None, "linear"
    time = figures(screen)["16.0 MiB per device"]
    assert {row["time"] for row in bars if row["kind"] == "All-reduce"} == {time}
    assert {row["size"] for row in bars} == {"16.0 MiB"}
    too = "bus bandwidth" if view == "Time" else "time"
    assert ranking["title"]["text"] == f"{view} and {too} at 16.0 MiB per device"


def test_a_link_to_simulated_devices_keeps_its_target(data_folder):
    asked = parse_experiment({"workload": "collectives", "target": "cpu:8", "mesh": {"x": 8}})
    screen = opened("collectives", experiment=link.encode(asked))
    target = next(each for each in screen.selectbox if each.label == "Target")
    assert target.value == "cpu:8" and not charts(screen)
    assert any(
        "Predict on v5e:2x4" in each.proto.label.replace("\\", "")
        for each in screen.get("page_link")
    )

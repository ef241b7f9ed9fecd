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


def figure(screen):
    (words,) = (
        each.proto.body for each in screen.get("html") if '<div class="figure">' in each.proto.body
    )
    return re.search(r'class="figure">([^<]*?) <', words).group(1)


@pytest.mark.skipif(bool(accelerator_files()), reason="the default is what is attached")
def test_without_an_accelerator_the_target_is_one_chip_generation_predicted(data_folder):
    screen = opened("collectives")
    target = next(each for each in screen.selectbox if each.label == "Target")
    assert target.value == "tpu:v5e:2x4" and "cpu" not in said(screen)
    first, *others = charts(screen)
    assert "All-reduce on v5e:2x4" in said(screen) and len(others) == 4
    assert any(figure(screen) in label for label in labels(first))
    assert any(label.startswith("half at ") for label in labels(first))


@pytest.mark.parametrize("over", ["x+y", "y"])
def test_small_charts_have_the_axes_of_the_first_one_and_the_card_its_peak(data_folder, over):
    screen = opened("collectives", tab=over)
    scales = {
        json.dumps([layer["encoding"][axis]["scale"] for axis in "xy"])
        for spec in charts(screen)
        for layer in spec["layer"][:1]
    }
    assert len(scales) == 1
    assert any(figure(screen) in label for label in labels(charts(screen)[0]))


def test_a_link_to_simulated_devices_keeps_its_target(data_folder):
    asked = parse_experiment({"workload": "collectives", "target": "cpu:8", "mesh": {"x": 8}})
    screen = opened("collectives", experiment=link.encode(asked))
    target = next(each for each in screen.selectbox if each.label == "Target")
    assert target.value == "cpu:8" and not charts(screen)
    assert any(
        "Predict on v5e:2x4" in each.proto.label.replace("\\", "")
        for each in screen.get("page_link")
    )

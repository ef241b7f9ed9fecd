"""The picture of an experiment at a glance: its shards, its collective, and no markup of others."""

import re
from xml.etree import ElementTree

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.facts import Collective
from spmd_core.program import rows
from spmd_core.recipes import RECIPES
from spmd_lab.ui.charts import glimpse

LAYER = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}, "sharding": {"in": "x"}}
LAYER |= {"dims": {"batch": 32, "in": 64, "out": 16}}
SUM = Collective(
    kind="all-reduce",
    axes=("x",),
    bytes=2**20,
    count=2,
    bytes_total=2**21,
    seconds=1e-3,
    seconds_total=2e-3,
)


def texts(svg: str) -> list[str]:
    return [
        each.text or "" for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")
    ]


def rectangles(svg: str) -> int:
    return sum(
        each.tag.endswith("path") and each.get("fill") != "none"
        for each in ElementTree.fromstring(svg).iter()
    )


def test_a_sum_stands_between_its_partial_sums_and_the_result_with_bytes_and_time():
    kind, size = glimpse.words(rows([SUM])[0])
    assert (kind, size) == ("all-reduce over x", "of 2.0 MiB · 2 ms")
    experiment = parse_experiment(LAYER)
    drawn = glimpse.svg(experiment, kind, size, True)
    named = [each for each in texts(drawn) if not each.replace("–", "").isdecimal()]
    assert [each for each in named if "P(" not in each] == [
        "array x",
        "weights",
        "bias",
        "y",
        "partial sums",
        kind,
        size,
    ]
    assert named[1::2][:2] == ["P(None, 'x')", "P('x', None)"] and "0–7" in texts(drawn)
    assert rectangles(drawn) == 8 + 8 + 1 + 1 + 8
    gathered = glimpse.svg(experiment, "all-gather over x", size, True)
    assert "partial sums" not in texts(gathered) and "all-gather over x" in texts(gathered)


def test_a_result_that_is_computed_from_the_sum_stands_behind_the_sum():
    whole = {
        "workload": "normalize",
        "target": "cpu:8",
        "mesh": {"x": 8},
        "sharding": {"rows": "x"},
    }
    found = parse_experiment(whole | {"dims": {"rows": 8192, "cols": 1024}})
    drawn = glimpse.svg(found, "all-reduce over x", "4.0 KiB", True, 4096)
    assert [each for each in texts(drawn) if each in ("partial sums", "sum", "with x", "y")] == [
        "y",
        "partial sums",
        "sum",
        "with x",
    ]
    assert rectangles(drawn) == 8 + 8 + 1 + 8
    assert "with x" not in texts(glimpse.svg(found, "all-reduce over x", "4.0 KiB", True))


@pytest.mark.parametrize(
    ("mesh", "sharding", "sums"),
    [
        ({"x": 8}, "x", ["0", "1", "2", "3", "4", "5", "6", "7"]),
        ({"x": 4, "y": 2}, "x", ["0, 1", "2, 3", "4, 5", "6, 7"]),
        ({"y": 2, "x": 4}, "x", ["0, 4", "1, 5", "2, 6", "3, 7"]),
        ({"x": 4, "y": 2}, ["x", "y"], ["0", "1", "2", "3", "4", "5", "6", "7"]),
    ],
)
def test_devices_along_an_axis_that_shards_nothing_have_one_partial_sum(mesh, sharding, sums):
    given = {"workload": "normalize", "target": "cpu:8", "dims": {"rows": 8192, "cols": 1024}}
    found = parse_experiment(given | {"mesh": mesh, "sharding": {"rows": sharding}})
    drawn = glimpse.svg(found, "all-reduce over x", "4.0 KiB", True, 4096)
    held = [each for each in texts(drawn) if each.replace(", ", "").isdecimal()]
    assert held == sums * 3  # of the operand, of the result, and the sums
    paths = [each for each in ElementTree.fromstring(drawn).iter() if each.tag.endswith("path")]
    fills = [each.get("fill") for each in paths]
    assert fills[: len(sums)] == fills[2 * len(sums) : 3 * len(sums)], "as the shards they are of"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("mesh", [{"x": 8}, {"x": 4, "y": 2}])
def test_a_sum_over_rows_is_flat_whatever_its_bytes(dtype, mesh):
    """CPUs add bfloat16 as float32: as many bytes as a quarter of a column's would have."""
    given = {"workload": "normalize", "target": "cpu:8", "dims": {"rows": 8192, "cols": 1024}}
    more = {"mesh": mesh, "sharding": {"rows": "x"}, "dtype": dtype}
    drawn = glimpse.svg(parse_experiment(given | more), "all-reduce over x", "", True, 4096)
    paths = [
        each.get("d", "")
        for each in ElementTree.fromstring(drawn).iter()
        if each.get("fill") == "#a9b4c2"
    ]
    ((wide, high),) = [map(int, re.findall(r"h(\d+)v(\d+)", path)[0]) for path in paths]
    assert wide > 1.5 * high


def test_the_result_stands_right_of_the_arrow_and_nothing_beyond_the_picture():
    drawn = ElementTree.fromstring(
        glimpse.svg(parse_experiment(LAYER), *glimpse.words(rows([SUM])[0]))
    )
    width = float(drawn.get("viewBox", "").split()[2])
    boxes = [each.get("d", "") for each in drawn.iter() if each.get("fill", "none") != "none"]
    ends = [sum(map(float, re.findall(r"M(\d+) .*?h(\d+)", box)[0])) for box in boxes if "h" in box]
    assert max(ends) <= width - 2 and max(ends) > 0.9 * width


@pytest.mark.parametrize("name", list(RECIPES))
def test_every_recipe_has_a_picture(name):
    drawn = glimpse.svg(RECIPES[name].experiment)
    assert rectangles(drawn) > 0 and len(drawn) < 60_000


def test_names_of_others_are_text():
    drawn = glimpse.svg(parse_experiment(LAYER), "all-reduce over <script>", "1 B", True)
    assert "<script>" not in drawn and "all-reduce over <script>" in texts(drawn)


def test_host_memory_is_apart_with_the_copy_as_an_arrow():
    here = parse_experiment(LAYER)
    hosted = parse_experiment({**here.to_json(), "memory": {"weights": "pinned_host"}})
    drawn = glimpse.svg(hosted, has_names=True)
    assert set(texts(drawn)) - set(texts(glimpse.svg(here, has_names=True))) == {"copy from host"}
    assert rectangles(drawn) > rectangles(glimpse.svg(here, has_names=True))


@pytest.mark.parametrize(
    ("strategy", "held"), [("auto", "P(None, 'x')"), ("explicit", "f32[32,64@x]")]
)
def test_explicit_axes_are_in_the_types_of_arrays(strategy, held):
    layer = parse_experiment(LAYER | {"strategies": [strategy]})
    assert held in texts(glimpse.svg(layer, has_names=True))

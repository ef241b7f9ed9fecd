"""An answer in a notebook cell: pictures of the step's own facts, and nothing that runs or loads."""

import math
import re
from xml.etree import ElementTree

import pytest

import spmd_lab
from spmd_core.facts import Estimate
from spmd_core.own.cell import cell_of, page_of
from tests.own.expected.test_golden import BEFORE, gather

PRICED = BEFORE.model_copy(
    update={
        "predicted_s": Estimate(low=0.02, estimate=0.03, high=0.04),
        "collectives": (gather(exposed_s=0.01), gather(axes=("tensor",), exposed_s=0.002)),
        "target": "tpu:v5e:2x4",
    }
)
STEPS = {"simulated": BEFORE, "priced": PRICED, "silent": BEFORE.model_copy(update={"collectives": (), "arguments": ()})}  # fmt: skip


def pictures(step):
    """The title of each picture, and its texts."""
    found = re.findall(r"<figcaption[^>]*>(.*?)</figcaption>(<svg.*?</svg>)", cell_of(step))
    return {
        title: [each.text or "" for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("text")]
        for title, svg in found
    }  # fmt: skip


def test_each_picture_has_the_steps_figures():
    drawn = pictures(PRICED)
    held = next(title for title in drawn if title.startswith("Arguments: "))
    assert any("up" in each for each in drawn[held])
    assert drawn["A step: 30 ms"][0] == "computes 18 ms, waits 12 ms"
    assert "10 ms" in drawn["A step: 30 ms"]
    (moved,) = (texts for title, texts in drawn.items() if title.startswith("Communication over"))
    assert {each.split(":")[0] for each in moved} == {"↓ fsdp", "→ tensor"}


@pytest.mark.parametrize("name", STEPS)
def test_nothing_of_it_runs_or_loads(name):
    hostile = "<script>alert(1)</script>"
    step = STEPS[name].model_copy(update={"function": hostile})
    page = page_of(step)
    tags = {each.lower() for each in re.findall(r"<(\w+)", page)}
    assert not tags & {"script", "style", "link", "img", "image", "use", "iframe", "a"}
    assert not re.search(r"\b(on\w+|href|src|url)\s*[=(]", page)
    assert "default-src 'none'" in page and "&lt;script&gt;" in page


def test_a_step_without_arrays_and_collectives_has_no_pictures():
    assert pictures(STEPS["silent"]) == {}


@pytest.mark.parametrize("spec", [("x", "y"), (None, ("x", "y")), ("y",), (("y", "x"), None), ()])
def test_a_layouts_shards_are_where_the_layout_has_them(spec):
    answer = spmd_lab.layout((8, 16), spec, {"x": 2, "y": 4})
    drawn = re.findall(r"<title>devices ([^<]*)</title>", answer._repr_html_())
    listed = re.findall(r"│ *([0-9 -]+?) *(?=│)", str(answer)) or drawn
    assert len(drawn) in (1, 4, 8) and drawn == listed


@pytest.mark.parametrize("spec", [("x",), ("x", None, "y"), (("x", "y"),), (None, "y")])
def test_a_layout_of_many_dims_shows_those_that_are_sharded(spec):
    answer = spmd_lab.layout((8, 16, 4, 3), spec, {"x": 2, "y": 4})
    drawn = re.findall(r"<title>devices ([^<]*)</title>", answer._repr_html_())
    shards = {"x": 2, "y": 4}
    names = [name for dim in spec if dim for name in ((dim,) if isinstance(dim, str) else dim)]
    assert len(set(drawn)) == len(drawn) == math.prod(shards[name] for name in names)


def test_waits_of_lines_that_have_no_bar_are_counted():
    moved = tuple(
        gather(f"line {at}", source=f"model.py:{at}", exposed_s=0.001) for at in range(10)
    )
    drawn = pictures(PRICED.model_copy(update={"collectives": moved}))["A step: 30 ms"]
    assert drawn[0] == "computes 20 ms, waits 10 ms"

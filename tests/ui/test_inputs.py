import math

import pytest
from streamlit.testing.v1 import AppTest

from spmd_core.experiment import link, parse_experiment
from spmd_core.machine import get_topology
from spmd_core.time import group_words
from spmd_lab.ui.collectives.inputs import mesh_of
from spmd_lab.ui.layout.shape import parse_shape
from spmd_lab.ui.mesh_fields import keep_axes, rename_axes
from tests.ui import opened


def test_shapes_as_people_write_them():
    assert (
        parse_shape("4, 8")
        == parse_shape("(4, 8)")
        == parse_shape("4x8")
        == parse_shape("[4, 8,]")
        == {"d0": 4, "d1": 8}
    )
    assert parse_shape("4 x 8") == parse_shape("4×8") == {"d0": 4, "d1": 8}
    assert parse_shape("8, x, 32") == {"d0": 8, "d1": "x", "d2": 32}
    assert parse_shape("7") == {"d0": 7}
    assert parse_shape("1_000") == {"d0": 1000}


def test_what_is_no_size_is_kept_for_the_rules_to_refuse():
    assert parse_shape("4, abc") == {"d0": 4, "d1": "abc"}
    assert parse_shape("-4") == {"d0": -4}
    assert parse_shape("") == {"d0": None}
    assert parse_shape("9" * 50)["d0"] == "9" * 50


def test_a_renamed_axis_is_renamed_in_sharding_and_overrides():
    draft = {"sharding": {"in": "x", "batch": ["y", "x"]}, "overrides": {"weights": [None, "x"]}}
    rename_axes(draft, {"x": "model"})
    assert draft == {
        "sharding": {"in": "model", "batch": ["y", "model"]},
        "overrides": {"weights": [None, "model"]},
    }


def test_a_removed_axis_leaves_sharding_and_overrides():
    draft = {
        "mesh": [["x", 2], ["y", 4]],
        "sharding": {"in": "y", "batch": ["y", "x"], "out": "x"},
        "overrides": {"weights": [None, "y"], "x": [["x", "y"], None]},
    }
    keep_axes(draft, ["x"])
    assert draft["sharding"] == {"batch": "x", "out": "x"}
    assert draft["overrides"] == {"weights": [None, None], "x": ["x", None]}


LAYER = parse_experiment(
    {
        "workload": "layer",
        "mesh": {"x": 2, "y": 4},
        "dims": {"batch": 32, "in": 64, "out": 16},
        "sharding": {"out": "y", "batch": "x"},
        "overrides": {"weights": [None, ["x", "y"]]},
    }
)
ARRAY = parse_experiment(
    {
        "workload": "array",
        "mesh": {"x": 2, "y": 4},
        "dims": {"d0": 8, "d1": 8},
        "sharding": {"d0": "x", "d1": "y"},
    }
)
OVER = parse_experiment(
    {
        "workload": "array",
        "mesh": {"x": 2, "y": 4},
        "dims": {"d0": 8, "d1": 8},
        "overrides": {"array": ["x", "y"]},
    }
)
ABSENT = LAYER.vary(target="tpu:v5e:2x4", strategies=["auto"])
MODEL = parse_experiment(
    {
        "workload": "decoder",
        "target": "tpu:v5e:4x4",
        "mesh": {"fsdp": 4, "tensor": 4},
        "dims": {"batch": 32, "sequence": 2048},
        "options": {"model": "scaled:1"},
    }
)


@pytest.mark.parametrize(
    ("page", "experiment"),
    [
        ("compare", LAYER),
        ("layout", ARRAY),
        ("layout", OVER),
        ("predict", ABSENT),
        ("predict", MODEL),
    ],
    ids=["compare", "layout", "override", "predict", "model"],
)
def test_a_removed_axis_leaves_specs_and_its_size_comes_back(data_folder, page, experiment):
    screen = opened(page, experiment=link.encode(experiment))
    axes = next(group for group in screen.button_group if group.label == "Mesh axes")
    before, name = _size(screen, 2).value, experiment.mesh[1][0]
    axes.set_value(1).run()
    assert not screen.exception
    told = " ".join(error.value for error in screen.error)
    assert f"'{name}'" not in told, told
    assert all(name not in field.value for field in screen.multiselect)
    next(group for group in screen.button_group if group.label == "Mesh axes").set_value(2).run()
    assert not screen.exception and _size(screen, 2).value == before == 4
    names = {field.label: field.value for field in (*screen.text_input, *screen.selectbox)}
    assert names["Axis 2 name"] == name


@pytest.mark.parametrize(
    ("sizes", "added"),
    [
        ({"x": 8}, [4, 2]),
        ({"x": 4, "y": 2}, [2, 2, 2]),
        ({"x": 3}, [3, 1]),
        ({"x": 6}, [3, 2]),
        ({"x": 1}, [1, 1]),
    ],
)
def test_an_added_axis_takes_a_part_of_the_largest_and_gives_it_back(data_folder, sizes, added):
    given = ARRAY.vary(mesh=sizes, dims={"d0": 48}, sharding={"d0": "x"}, overrides={})
    screen = opened("layout", experiment=link.encode(given))

    def with_axes(count):
        axes = next(group for group in screen.button_group if group.label == "Mesh axes")
        axes.set_value(count).run()
        assert not screen.exception and not screen.error
        return [_size(screen, place + 1).value for place in range(count)]

    assert with_axes(len(added)) == added
    assert with_axes(len(sizes)) == list(sizes.values())


def _size(screen, position):
    return next(f for f in screen.number_input if f.label == f"Axis {position} size")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("8, x, 32", "d1='x' is not a size: use a whole number"),
        ("64k", "d0='64k' has a suffix that may mean either: write 65536 or 64000"),
    ],
)
def test_a_shape_with_no_size_in_it_is_refused_in_clear_words(data_folder, text, words):
    screen = opened("layout")
    field = next(field for field in screen.text_input if field.label == "Array shape")
    field.set_value(text).run()
    assert words in " ".join(error.value.replace("\\", "") for error in screen.error)


def test_strategies_keep_the_order_of_the_link_that_they_came_with():
    """An order is part of an experiment: a link that is opened must not become another experiment."""

    def script(names):
        import streamlit as st

        from spmd_lab.ui import inputs

        st.session_state["chosen"] = inputs.strategies_input(
            "compare", "strategies", ("single", "auto", "explicit", "shard_map"), names
        )

    at = AppTest.from_function(script, kwargs={"names": ["shard_map", "auto"]}).run()
    assert at.session_state["chosen"] == ["shard_map", "auto"]
    at.button_group[0].set_value(["single", "auto", "shard_map"]).run()
    assert at.session_state["chosen"] == ["shard_map", "auto", "single"]


def test_the_mesh_of_collectives_follows_a_typed_target():
    screen = opened("collectives")
    target = next(each for each in screen.selectbox if each.label == "Target")
    assert "tpu:v5e:4x4" in target.options or any("v5e:4x4" in each for each in target.options)
    target.set_value("tpu:v5e:4x4").run()
    assert not screen.exception
    sizes = [each.value for each in screen.number_input if "size" in each.label]
    assert sizes == [4, 4], "an axis for each of the chips"
    assert next(each for each in screen.button if each.key == "measure").label == "Store prediction"


@pytest.mark.parametrize(
    "target", ["tpu:v5p:4x4x4", "tpu:v5e:16x16", "tpu:v5e:4x8", "tpu:tpu7x:4x4x8", "tpu:v5p:2x2x4"]
)
def test_each_axis_of_the_mesh_of_a_slice_is_along_the_axis_of_its_name(target):
    topology = get_topology(target)
    mesh = mesh_of(topology)
    assert math.prod(size for _, size in mesh) == topology.devices
    for name, size in mesh:
        words = group_words(topology, mesh, "topology", (name,))
        on = "the 2 devices of a chip" if name == "core" else f" of {size} along {name}"
        assert words.endswith(on), words


def test_many_groups_of_axes_are_a_list(data_folder):
    asked = {"workload": "collectives", "target": "tpu:tpu7x:4x4x8"}
    mesh = {"mesh": dict(mesh_of(get_topology(asked["target"])))}
    screen = opened("collectives", experiment=link.encode(parse_experiment(asked | mesh)))
    assert not screen.exception
    over = next(each for each in screen.selectbox if each.label == "Over")
    assert len(over.options) == 11

"""Fields of the screens: labels, what is shared, what is invalid, and what is offered."""

import pytest

from spmd_core.experiment import link, parse_experiment
from tests.ui import opened as screen_opened, said

LAYER = {
    "workload": "layer",
    "target": "cpu:8",
    "mesh": {"x": 2, "y": 4},
    "dims": {"batch": 32, "in": 64, "out": 16},
    "sharding": {"batch": "x", "in": "y"},
    "strategies": ["auto"],
}
ARRAY = {
    "workload": "array",
    "target": "cpu:8",
    "mesh": {"x": 2, "y": 4},
    "dims": {"d0": 8, "d1": 16},
    "sharding": {"d0": "x", "d1": "y"},
}


@pytest.fixture
def opened(lab):
    """A function that opens a screen on an experiment."""
    return lambda page, spec, **query: screen_opened(
        page, experiment=link.encode(parse_experiment(spec)), **query
    )


def named(widgets, label):
    return next(each for each in widgets if each.label == label)


def shown(screen):
    given = screen.query_params["experiment"]
    return link.decode(given if isinstance(given, str) else given[0])


def test_each_sharding_field_names_its_dim(opened):
    screen = opened("compare", LAYER)
    labels = [each.label for each in screen.multiselect if each.label.endswith("sharded over")]
    assert labels == [f"{dim} sharded over" for dim in ("batch", "in", "out")]


@pytest.mark.parametrize(("page", "button"), [("compare", "Run"), ("collectives", "Measure")])
def test_run_is_disabled_while_the_fields_are_invalid(opened, page, button):
    spec = LAYER if page == "compare" else {"workload": "collectives", "mesh": {"x": 8}}
    screen = opened(page, spec)
    assert not named(screen.button, button).disabled
    named(screen.number_input, "Axis 1 size").set_value(None).run()
    assert named(screen.button, button).disabled
    named(screen.number_input, "Axis 1 size").set_value(2).run()
    assert not named(screen.button, button).disabled


@pytest.mark.parametrize("text", ["", "8, x", "abc", "(8; 16)"])
def test_a_text_that_is_no_shape_loses_no_axis(opened, text):
    screen = opened("layout", ARRAY)
    field = named(screen.text_input, "Array shape")
    field.set_value(text).run()
    field = named(screen.text_input, "Array shape")
    field.set_value("16, 32").run()
    assert dict(shown(screen).sharding) == dict(parse_experiment(ARRAY).sharding)
    assert dict(shown(screen).dims) == {"d0": 16, "d1": 32}


def test_an_empty_field_has_a_sentence_of_its_own(opened):
    screen = opened("compare", LAYER)
    named(screen.number_input, "in").set_value(None).run()
    assert "in has no size: write a whole number from 1 to" in said(screen)
    named(screen.number_input, "in").set_value(64)
    named(screen.number_input, "Axis 2 size").set_value(None).run()
    assert "mesh axis y has no size: write a whole number from 1 to" in said(screen)


def test_an_axis_that_takes_the_name_of_another_and_gives_it_back_keeps_its_sharding(opened):
    screen = opened("compare", LAYER)
    name = "Axis 2 name"
    named(screen.text_input, name).set_value("x").run()
    assert "twice" in said(screen)
    named(screen.text_input, name).set_value("").run()
    named(screen.text_input, name).set_value("z").run()
    found = shown(screen)
    assert found.axis_sizes == {"x": 2, "z": 4}
    assert dict(found.sharding) == {"batch": ("x",), "in": ("z",)}


def test_a_study_names_the_fields_of_all_its_variants_and_those_of_one(opened):
    other = {"experiment": LAYER | {"sharding": {"out": "y"}}}
    screen = opened("compare", {"study": [{"experiment": LAYER}, other]})
    assert "**All variants**" in said(screen)
    assert (
        named(screen.number_input, "out").help.replace("\\", "")
        == "All variants of the study share this."
    )
    named(screen.number_input, "out").set_value(32)
    named(screen.selectbox, "dtype").set_value("bfloat16").run()
    found = shown(screen)
    assert {each.experiment.sizes["out"] for each in found.variants} == {32}
    assert [each.experiment.dtype for each in found.variants] == ["bfloat16", "float32"]


def test_an_element_of_the_picture_is_a_field(opened):
    screen = opened("layout", ARRAY, element="5, 2")
    assert "Element [5, 2] is on device 4 (mesh x=1, y=0), which holds [4:8, 0:4]." in said(screen)
    field = named(screen.text_input, "Which devices hold element …")
    field.set_value("5, 20").run()
    assert "index 20 of d1 is outside an array of size 16: use 0 to 15" in said(screen)
    screen = opened("layout", ARRAY | {"sharding": {"d1": "y"}}, element="[0, -1]")
    assert "Element [0, 15] is on devices 3, 7, each of which holds [0:8, 12:16]." in said(screen)


def _numbers_help(screen) -> str:
    return named(screen.text_input, "Which devices hold element …").help


def test_a_topology_is_offered_on_layout_and_help_says_what_its_numbers_are(opened):
    screen = opened("layout", ARRAY)
    assert "tpu:v5e:4x4, not attached" in named(screen.selectbox, "Target").options
    assert "positions in the mesh's device order" in _numbers_help(screen)
    screen = opened("layout", ARRAY | {"target": "tpu:v5e:2x4", "mesh": {"x": 8}, "sharding": {}})
    assert "Numbers in cells are JAX's device ids" in _numbers_help(screen)
    assert "positions in the mesh's device order" not in _numbers_help(screen)


@pytest.mark.parametrize(
    ("text", "dims", "dtype"),
    [
        ("f32[64@x,128@y]", {"d0": 64, "d1": 128}, "float32"),
        (
            "jnp.zeros((64, 128), jnp.bfloat16, device=NamedSharding(mesh, P('x', 'y')))",
            {"d0": 64, "d1": 128},
            "bfloat16",
        ),
    ],
)
def test_pasted_code_fills_shape_and_dtype_without_the_button(opened, text, dims, dtype):
    screen = opened("layout", ARRAY | {"sharding": {}})
    screen.text_area[0].set_value(text).run()
    found = shown(screen)
    assert (dict(found.dims), found.dtype) == (dims, dtype)
    assert dict(found.sharding) == {"d0": ("x",), "d1": ("y",)}
    screen.text_area[0].set_value("nothing at all").run()
    assert "has no PartitionSpec" in said(screen)


def test_no_picture_is_drawn_while_a_mesh_of_the_text_is_not_read(opened):
    screen = opened("layout", ARRAY | {"sharding": {}})
    screen.text_area[0].set_value("P('x')\nmesh = get_mesh()").run()
    assert "No picture" in screen.info[0].value and not screen.get("vega_lite_chart")
    assert any("Line 1: " in each.value for each in screen.text)
    screen.text_area[0].set_value("P('x')").run()
    assert not screen.info and screen.get("vega_lite_chart")


def test_pasted_code_does_not_undo_what_is_edited_after_it(opened):
    screen = opened("layout", ARRAY | {"sharding": {}})
    screen.text_area[0].set_value("f32[64@x,128@y]").run()
    named(screen.text_input, "Array shape").set_value("32, 128").run()
    assert dict(shown(screen).dims) == {"d0": 32, "d1": 128}
    screen.run()
    assert dict(shown(screen).dims) == {"d0": 32, "d1": 128}

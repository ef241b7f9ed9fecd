"""The Layout screen without a browser: a product in pictures, resharding, pasted code."""

import pytest

from spmd_core.base import RequestError, bytes_text
from spmd_core.experiment import layout_of, link, parse_experiment, read_pasted
from spmd_lab.ui.charts import together
from spmd_lab.ui.charts.layout_words import guess_text
from spmd_lab.ui.layout import paste, placing, product
from tests.ui import opened

STEP = parse_experiment(
    {
        "workload": "layer",
        "target": "tpu:v5e:2x4",
        "mesh": {"x": 2, "y": 4},
        "dims": {"batch": 64, "in": 128, "out": 64},
        "overrides": {"x": ["x", None], "weights": ["x", "y"], "y": ["x", "y"]},
    }
)
ARRAY = {"array": ("d0", "d1")}
ARRAYS = {"x": ("batch", "in"), "weights": ("in", "out"), "y": ("batch", "out")}
HELD = ("x", "weights", "bias", "y")


def shown(screen) -> str:
    assert not screen.exception
    each = [*screen.subheader, *screen.markdown, *screen.caption, *screen.error]
    return " ".join(item.value.replace("\\", "") for item in each)


def test_a_link_to_a_product_shows_what_it_needs_and_its_fields_change_it(data_folder):
    screen = opened("layout", experiment=link.encode(STEP))
    assert "All-gather of operand weights over axis `x`: 6.18 µs" in shown(screen)
    field = next(each for each in screen.text_input if each.label == "Spec of weights")
    assert field.value == "P('x', 'y')"
    field.set_value("P(None, 'y')").run()
    assert "No communication: every device has what its part of the product needs" in shown(screen)
    field.set_value("import os").run()
    said = shown(screen)
    assert "'import os' has no PartitionSpec: write P('x', None)" in said
    area = screen.text_area[0]
    area.set_value("w = jax.device_put(w, NamedSharding(mesh, P('x', 'y')))").run()
    assert "All-gather of operand weights over axis `x`" in shown(screen)  # no button is needed
    assert "Fill the fields" in {each.label for each in screen.button}


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("P(None, 'x')", "P('y', None) → P(None, 'x'): "),
        ("nothing", "'nothing' has no PartitionSpec: write"),
        ("P('z')", "mesh axis 'z' is not in the mesh"),
        ("P(__import__('os'))", "is no axis name, and nothing is evaluated"),
        ("P('x', None, 'y')", "does not fit its rank 2"),
    ],
)
def test_a_link_carries_what_it_is_resharded_to_and_a_bad_one_gets_a_sentence(
    data_folder, to, said
):
    assert said in shown(opened("layout", to=to))


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("P('y', None)", {"sharding": {"d0": "y"}}),
        (
            "NamedSharding(jax.make_mesh((8,), ('z',)), P(None, 'z'))",
            {"sharding": {"d1": "z"}, "mesh": [["z", 8]]},
        ),
        ("P(('x', 'y'))", {"sharding": {"d0": ["x", "y"]}}),
        ("jax.make_mesh((4, 2), ('a', 'b'))", {"sharding": {}, "mesh": [["a", 4], ["b", 2]]}),
        ("jax.make_mesh((4, 2), ('y', 'x'))", {"mesh": [["y", 4], ["x", 2]]}),
    ],
)
def test_pasted_code_sets_the_form_of_an_array(text, changed):
    form = {"mesh": [["x", 2], ["y", 4]], "sharding": {"d0": "x"}, "overrides": {}}
    assert paste.filled(form, read_pasted(text), ARRAY) == form | changed


def test_a_pasted_sharding_takes_its_memory_kind_along_and_each_of_its_lines_is_used():
    text = "s = NamedSharding(mesh, P('x'), memory_kind='pinned_host')\ny = jax.device_put(x, s)"
    pasted = read_pasted(text)
    new = paste.filled({"sharding": {}, "memory": {"array": "device"}}, pasted, ARRAY)
    assert new["memory"] == {"array": "pinned_host"}
    assert "Not used" not in paste.receipt_words(pasted, text)


def test_pasted_specs_go_to_the_arrays_that_they_name_then_in_order():
    pasted = read_pasted("kernel = P('x')\njax.jit(f, in_shardings=(P('y', None),))")
    assert paste.filled({}, pasted, ARRAYS)["overrides"] == {
        "weights": ["x", None],
        "x": ["y", None],
    }


@pytest.mark.parametrize(
    ("text", "arrays", "said"),
    [
        ("P('x', None, 'y')", ARRAY, "a spec of 3 entries is longer than the rank 2 of array"),
        ("f(P('x'), P('y'))", ARRAY, "2 specs were pasted for one array"),
        ("f(P(), P(), P(), P())", ARRAYS, "4 specs are more than 3 arrays"),
    ],
)
def test_pasted_code_that_does_not_fit_gets_a_sentence(text, arrays, said):
    with pytest.raises(RequestError, match=said):
        paste.filled({"mesh": [["x", 2]]}, read_pasted(text), arrays)


def test_arrays_are_drawn_to_one_scale_with_a_block_for_each_shard():
    arrays = together.drawn(STEP)
    boxes = together.boxes_of(STEP, arrays)
    blocks = {box.array.name: together.blocks_of(box, 100.0) for box in boxes}
    assert [len(blocks[array.name]) for array in arrays] == [2, 8, 8]
    assert together.is_to_scale(STEP, arrays)
    (_, _, wide, tall, *_), (_, _, narrow, as_tall, *_) = blocks["x"][0], blocks["y"][0]
    # 32 x 128 and 32 x 16 elements
    assert wide == pytest.approx(8 * narrow) and tall == pytest.approx(as_tall)


@pytest.mark.parametrize("mesh", [{"x": 7}, {"x": 2, "y": 4}, {"a": 3, "b": 5, "c": 1}])
def test_what_the_switch_begins_with_is_valid_on_any_mesh(mesh):
    array = parse_experiment(
        {"workload": "array", "target": "cpu:8", "mesh": mesh, "dims": {"d0": 105}}
    )
    step = product.begun(array, product.STEP)
    assert step.workload == "layer" and step.axis_sizes == mesh
    assert product.begun(step, product.ONE).workload == "array"


def test_a_product_begins_with_the_matrix_that_was_drawn():
    array = parse_experiment(
        {
            "workload": "array",
            "target": "cpu:8",
            "mesh": {"x": 2, "y": 4},
            "dims": {"d0": 24, "d1": 48},
            "dtype": "bfloat16",
            "sharding": {"d1": ["x", "y"]},
            "memory": {"array": "pinned_host"},
        }
    )
    step = product.begun(array, product.STEP)
    assert (step.sizes["batch"], step.sizes["in"], step.dtype) == (24, 48, "bfloat16")
    assert step.spec("x") == ((), ("x", "y"))
    assert step.memory_kind("x") == "device"  # no field has it
    assert product.begun(step, product.ONE) == array.vary(memory={})


def test_a_dim_that_does_not_divide_has_a_button_for_an_axis_that_divides_it(data_folder):
    screen = opened("layout")
    next(each for each in screen.text_input if each.label == "Array shape").set_value("6, 8").run()
    assert "does not divide over mesh axis y=4" in screen.error[0].value.replace("\\", "")
    sizes = [each.label.replace("\\", "") for each in screen.button if "fit:size:" in str(each.key)]
    assert sizes == ["Use d0=4", "Use d0=8"]
    assert any("Shard d1 over y" in each.label for each in screen.button), "8 divides by 4"
    assert not any("Shard d" in each.proto.label for each in screen.get("page_link")), "stale"
    other = screen.button(key="fit:size:d0:8").click().run()
    assert not other.error and "8, 8" in [each.value for each in other.text_input]
    next(each for each in screen.text_input if each.label == "Array shape").set_value("6, 8").run()
    screen.button(key="fit:divide:d0").click().run()
    assert not screen.error
    assert "P('x'" in " ".join(each.value for each in screen.code)


def test_a_dim_that_does_not_divide_has_a_button_for_another_dim_that_does(data_folder):
    screen = opened("layout")
    next(each for each in screen.text_input if each.label == "Array shape").set_value("6, 8").run()
    screen.button(key="fit:other:d0").click().run()
    assert not screen.error
    assert "P(None, 'y')" in " ".join(each.value for each in screen.code)


def test_the_switch_turns_the_screen_over_and_back(data_folder):
    screen = opened("layout")
    switch = next(each for each in screen.get("button_group") if each.label == "Shows")
    switch.set_value(product.STEP).run()
    assert "every device has what its part of the product needs" in shown(screen)
    next(each for each in screen.get("button_group") if each.label == "Shows").set_value(
        product.ONE
    ).run()
    assert "8 devices each hold" in shown(screen)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_arrays_of_any_number_are_drawn_side_by_side(count):
    arrays = together.drawn(STEP)[:count]
    assert len(together.boxes_of(STEP, arrays)) == count


def test_an_array_in_host_memory_offers_its_copy():
    spec = {
        "workload": "array",
        "target": "cpu:8",
        "mesh": {"x": 2, "y": 4},
        "dims": {"d0": 8, "d1": 16},
        "sharding": {"d0": "x", "d1": "y"},
    }
    in_host = parse_experiment(spec | {"memory": {"array": "pinned_host"}})
    copied = placing.streamed(in_host, layout_of(in_host))
    assert copied is not None and copied.workload == "transfer"
    assert (dict(copied.dims), copied.spec("x")) == ({"bytes": 8 * 16 * 4}, (("x", "y"),))

    def offers(experiment):
        screen = opened("layout", experiment=link.encode(experiment))
        return [each for each in screen.get("page_link") if "Stream it" in each.proto.label]

    assert offers(in_host) and not offers(parse_experiment(spec))


def test_a_product_has_the_bytes_of_a_device_as_its_figure(data_folder):
    screen = opened("layout", experiment=link.encode(STEP))
    (figure,) = (
        each.proto.body for each in screen.get("html") if 'class="figure"' in each.proto.body
    )
    held = [layout_of(STEP, name).shard_bytes(STEP.dtype) for name in HELD]
    assert f">{bytes_text(sum(held))} " in figure
    assert all(
        f"{name} {bytes_text(each)}" in figure for name, each in zip(HELD, held, strict=True)
    )
    drawn = [each.name for each in together.drawn(STEP, is_large=True)]
    assert drawn == [*HELD] and "bias" not in [each.name for each in together.drawn(STEP)]


@pytest.mark.parametrize("seconds", [1.87e-4, 0.0414, 3.3])
def test_a_guess_has_one_digit(seconds):
    number, _ = guess_text(seconds).split()
    assert len(number.strip("0").replace(".", "")) == 1

"""The picture of a layout says what the layout says."""

import json
import re

import numpy as np
import pytest
import vl_convert

from bench.values import ENVIRONMENT
from spmd_core.experiment import layout, layout_of, parse_experiment
from spmd_core.results import Environment
from spmd_lab.ui.arrows.words import domains_words
from spmd_lab.ui.charts.colors import colors
from spmd_lab.ui.charts.layout_words import compact, group_texts, sharing_text, short_group_texts
from spmd_lab.ui.layout.domains import domains_of, hosts_of, with_hosts
from spmd_lab.ui.layout.grid import CHARACTER
from spmd_lab.ui.layout.picture import TABLE_ROWS, alt_text, joined_note, picture, scale_note, table
from spmd_lab.ui.tables import sheet

MESH = (("x", 2), ("y", 4))
CASES = {
    "strip": ((("x", 8),), (32,), (("x",),)),
    "grid": (MESH, (4, 8), (("x",), ("y",))),
    "replicated": (MESH, (4, 8), ((), ("y",))),
    "whole": (MESH, (4, 8), ((), ())),
    "panels": ((("x", 2), ("y", 2), ("z", 2)), (8, 16, 32), (("z",), ("x",), ("y",))),
    "two axes": (MESH, (16, 3), (("y", "x"), ())),
    "five dims": (
        (("a", 2), ("b", 2), ("c", 4), ("d", 4)),
        (8, 4, 16, 32, 64),
        (("a",), (), ("b",), ("c",), ("d",)),
    ),
    "512 devices": ((("x", 8), ("y", 8), ("z", 8)), (64, 1024, 4096), ((), ("z", "y"), ())),
    "scalar": ((("x", 8),), (), ()),
    "joined": ((("x", 64), ("y", 64)), (4096, 8192), (("x",), ("y",))),
}


def rows(found, name):
    return picture(found, "float32")["datasets"][name].to_pylist()


@pytest.mark.parametrize("case", CASES)
def test_the_chart_is_valid_vega_lite_and_draws(case):
    spec = picture(layout(*CASES[case]), "float32")
    spec |= {
        "width": 640,
        "datasets": {name: data.to_pylist() for name, data in spec["datasets"].items()},
    }
    svg = vl_convert.vegalite_to_svg(json.dumps(spec))
    assert svg.count("<path") >= len(spec["datasets"]["cells"])
    for label in spec["datasets"]["inside"]:
        assert label["text"] in svg


@pytest.mark.parametrize("case", [case for case in CASES if case != "joined"])
def test_every_shard_and_every_device_is_drawn_in_the_color_of_its_data(case):
    found = layout(*CASES[case])
    cells = rows(found, "cells")
    shards, devices = cells[: found.shard_count], cells[found.shard_count :]
    assert len({cell["color"] for cell in shards}) == len(shards) == found.shard_count
    assert [cell["devices"] for cell in devices] == [
        str(device) for device in range(found.device_count)
    ]
    for device, cell in enumerate(devices):
        mine = shards[found.shard_of[device]]
        assert (cell["color"], cell["key"], cell["holds"], cell["bytes"]) == (
            mine["color"],
            mine["key"],
            mine["holds"],
            mine["bytes"],
        )
    assert [cell["devices"] for cell in shards] == group_texts(found.groups)


@pytest.mark.parametrize(
    ("case", "element", "array", "mesh"),
    [
        ("grid", (3, 5), [6], [6]),
        ("replicated", (3, 5), [2], [2, 6]),
        ("joined", (4095, 8191), [255], [255]),
    ],
)
def test_what_holds_an_element_has_an_outline(case, element, array, mesh):
    found = layout(*CASES[case])
    cells = picture(found, "float32", element=element)["datasets"]["cells"].to_pylist()
    outlined = [each["outlined"] for each in cells]
    of_array = len(outlined) // 2 if case != "replicated" else found.shard_count
    assert [at for at, each in enumerate(outlined[:of_array]) if each] == array
    assert [at for at, each in enumerate(outlined[of_array:]) if each] == mesh
    assert not any(each["outlined"] for each in rows(found, "cells"))


def test_dims_that_are_not_drawn_are_named():
    titles = " ".join(each["text"] for each in rows(layout(*CASES["512 devices"]), "outside"))
    assert "not drawn: d0 (64), d2 (4,096)" in titles
    assert "not drawn" not in str(rows(layout(*CASES["grid"]), "outside"))


def test_cells_are_labelled_with_devices_and_slices():
    found = layout(*CASES["replicated"])
    texts = [label["text"] for label in rows(found, "inside")]
    assert texts[:4] == ["0, 4", "1, 5", "2, 6", "3, 7"]
    assert texts[4:12] == [str(device) for device in range(8)]
    assert texts[12:14] == ["0:4, 0:2", "0:4, 2:4"]
    outside = [label["text"] for label in rows(found, "outside")]
    assert {
        "Array f32[4,8@y], to scale",
        "rows: d0 not sharded; columns: d1 over y; numbers are devices",
        "0:2",
        "6:8",
        "Mesh x = 2, y = 4",
        "x=1",
        "y=3",
    } <= set(outside)


def test_hover_says_device_coordinates_slice_bytes_and_who_else():
    found = layout(*CASES["replicated"])
    shard, device = rows(found, "cells")[1], rows(found, "cells")[4 + 5]
    assert {name: shard[name] for name in ("devices", "mesh", "holds", "bytes", "same")} == {
        "devices": "1, 5",
        "mesh": "x=any, y=1",
        "holds": "[0:4, 2:4]",
        "bytes": "32 B",
        "same": "on 2 devices",
    }
    assert {name: device[name] for name in ("devices", "mesh", "holds", "bytes", "same")} == {
        "devices": "5",
        "mesh": "x=1, y=1",
        "holds": "[0:4, 2:4]",
        "bytes": "32 B",
        "same": "on 1, 5",
    }


def test_each_panel_says_which_part_of_the_array_it_is():
    found = layout(*CASES["panels"])
    assert {"d0 0:4", "d0 4:8", "x=0", "x=1"} <= {label["text"] for label in rows(found, "outside")}


def test_512_devices_are_all_labelled():
    found = layout(*CASES["512 devices"])
    texts = {label["text"] for label in rows(found, "inside")}
    assert {str(device) for device in range(512)} <= texts
    assert {"0 +7", "63 +7"} <= texts
    assert joined_note(found) is None


def test_where_there_are_too_many_tiles_join_neighbors_and_the_note_says_so():
    found = layout(*CASES["joined"])
    cells = rows(found, "cells")
    assert joined_note(found) == (
        "Too many to draw one by one: a tile of the array stands for 4 × 4 shards, a tile of the "
        "mesh stands for 4 × 4 devices."
    )
    assert len(cells) == 2 * 256
    assert (cells[0]["devices"], cells[0]["holds"]) == ("16 devices, 0 to 195", "[0:256, 0:512]")
    assert (cells[-1]["devices"], cells[-1]["holds"]) == (
        "16 devices, 3900 to 4095",
        "within [3840:4096, 7680:8192]",
    )
    assert len({cell["key"] for cell in cells[:256]}) == 256


@pytest.mark.parametrize("case", CASES)
def test_labels_fit_their_cells(case):
    found = layout(*CASES[case])
    cells = rows(found, "cells")
    for label in rows(found, "inside"):
        (cell,) = [
            cell
            for cell in cells
            if cell["x"] < label["x"] < cell["x2"] and cell["y"] < label["y"] < cell["y2"]
        ]
        assert label["size"] >= 8.0 and label["most"] < cell["y2"] - cell["y"]
        assert (
            CHARACTER * min(label["size"], label["most"]) * len(label["text"])
            <= cell["x2"] - cell["x"] + 2
        )


@pytest.mark.parametrize("count", [1, 2, 8, 16, 64, 1024])
def test_labels_can_be_read_on_every_color(count):
    """Contrast of WCAG 2.2, at least 4.5 to 1."""

    def luminance(color):
        channels = np.array([int(color[place : place + 2], 16) for place in (1, 3, 5)]) / 255
        return np.where(
            channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
        ) @ np.array([0.2126, 0.7152, 0.0722])

    drawn = colors(np.arange(count), count)
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for color in drawn)
    assert min((luminance(color) + 0.05) / (luminance("#15181d") + 0.05) for color in drawn) >= 4.5
    assert count > 64 or len(set(drawn)) == count


def test_alt_text_is_the_answer():
    assert alt_text(layout(*CASES["replicated"]), "float32") == (
        "8 devices each hold 4 × 2 of 4 × 8: 32 B of 128 B; replicated 2× over x. The array is "
        "drawn as 4 shards "
        "(d0 not sharded; d1 over y), the mesh x=2, y=4 as 8 devices in the color of what "
        "they hold. "
        "Device 0 holds [0:4, 0:2]; the same is on devices 0, 4."
    )
    assert "no other device holds that" in alt_text(layout(*CASES["grid"]), "float32")


def test_dims_are_called_what_the_experiment_calls_them():
    step = {"workload": "layer", "target": "cpu:8", "mesh": {"x": 8}, "sharding": {"in": "x"}}
    held = layout_of(parse_experiment(step), "weights")
    assert "(in over x; out not sharded)" in alt_text(held, "float32")
    assert {"[in]", "[out]"} <= set(table(held, "float32"))


def test_the_table_has_the_numbers_of_the_picture():
    numbers = sheet(table(layout(*CASES["replicated"]), "float32")).to_dict("records")
    assert numbers[5] == {
        "device": 5,
        "x": 1,
        "y": 1,
        "[d0]": "0:4",
        "[d1]": "2:4",
        "bytes": 32,
        "held by devices": "1, 5",
    }
    assert len(numbers) == 8


def test_the_table_ends_after_4096_devices_even_where_every_device_holds_everything():
    numbers = table(layout((("x", 65536),), (4,), ((),)), "float32")
    assert len(numbers) == TABLE_ROWS
    assert numbers["held by devices"][0] == "0–65535"


@pytest.mark.parametrize(
    ("groups", "long", "short"),
    [
        ([[3]], "3", "3"),
        ([[0, 4]], "0, 4", "0, 4"),
        ([[0, 2, 4, 6]], "0, 2, 4, 6", "0 +3"),
        ([list(range(8))], "0–7", "0–7"),
        ([list(range(0, 64, 8))], "0, 8 … 56 (8 devices)", "0 +7"),
    ],
)
def test_devices_in_words(groups, long, short):
    assert group_texts(np.array(groups)) == [long]
    assert short_group_texts(np.array(groups)) == [short]


def test_which_devices_share_in_a_sentence():
    assert sharing_text(layout(*CASES["grid"])) is None
    assert sharing_text(layout(*CASES["whole"])) == "All devices hold the same data."
    assert (
        sharing_text(layout(*CASES["replicated"]))
        == "4 groups of 2 devices hold the same data: 0, 4 · 1, 5 · 2, 6 · 3, 7"
    )
    assert sharing_text(layout(*CASES["512 devices"])) == (
        "64 groups of 8 devices hold the same data: 0, 64 … 448 · 8, 72 … 456 · 16, 80 … 464 · "
        "24, 88 … 472 · 32, 96 … 480 · 40, 104 … 488 · …"
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0"),
        (1000, "1000"),
        (16384, "16Ki"),
        (2**20, "1Mi"),
        (3 * 2**20, "3Mi"),
        (2**40, "1Ti"),
        (2**20 + 1, "1048577"),
    ],
)
def test_compact_numbers_are_exact(number, text):
    assert compact(number) == text


SCALED = {  # mesh, shape, spec, and whether there is room to draw it to scale
    "4 tall": ((("x", 4),), (16, 4), (("x",), ()), True),
    "8": (MESH, (4, 8), (("x",), ("y",)), True),
    "64": ((("x", 8), ("y", 8)), (64, 128), (("x",), ("y",)), True),
    "256": ((("x", 16), ("y", 16)), (1024, 2048), (("x",), ("y",)), True),
    "256 flat": ((("x", 16), ("y", 16)), (64, 8192), (("x",), ("y",)), False),
    "long": ((("x", 8),), (8192, 4), (("x",), ()), False),
}


def drawn(found, width):
    """Left, top, width and height in pixels of the rectangles of shards."""
    spec = picture(found, "float32") | {"width": width}
    spec["datasets"] = {name: data.to_pylist() for name, data in spec["datasets"].items()}
    svg = vl_convert.vegalite_to_svg(json.dumps(spec))
    cells = re.findall(r'aria-roledescription="rect mark"[^>]*? d="([^"]*)"', svg)
    boxes = []
    for path in cells[: found.shard_count]:
        numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", path)]
        boxes.append(path_box(path) if "C" in path or "A" in path else numbers)
    return np.array(boxes)


def path_box(path):
    """The box of a path of absolute commands: lines, and arcs or curves at its corners."""
    xs, ys = [], []
    for command, text in re.findall(r"([MLHVAC])([^MLHVACZ]*)", path):
        numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", text)]
        xs.append(numbers[0] if command == "H" else numbers[-2] if command != "V" else xs[-1])
        ys.append(numbers[0] if command == "V" else numbers[-1] if command != "H" else ys[-1])
    return min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)


@pytest.mark.parametrize("width", [345, 640, 900])
@pytest.mark.parametrize("case", SCALED)
def test_an_array_has_its_proportions_at_every_width_or_the_note_says_how_far(case, width):
    mesh, shape, spec, fits = SCALED[case]
    found = layout(mesh, shape, spec)
    boxes = drawn(found, width)
    across = (boxes[:, 0] + boxes[:, 2]).max() - boxes[:, 0].min()
    down = (boxes[:, 1] + boxes[:, 3]).max() - boxes[:, 1].min()
    ratio = down / across / (shape[0] / shape[1])
    titles = [label["text"] for label in rows(found, "outside")]
    assert any(title.endswith(", to scale") for title in titles) is fits
    if fits:
        assert ratio == pytest.approx(1, abs=0.08) and scale_note(found) is None
    else:
        assert not 0.9 < ratio < 1.1 and " times " in scale_note(found)


@pytest.mark.parametrize(("width", "heads", "sides"), [(632, 16, 16), (345, 8, 8)])
def test_edge_labels_are_left_out_where_a_narrow_window_has_no_room(width, heads, sides):
    found = layout(*SCALED["256"][:3])
    words = picture(found, "float32")["datasets"]["outside"].to_pylist()
    here = [word for word in words if word["exact"] and word["need"]]

    def seen(word):
        room = word["room"] * min(1, width / 632)
        return word["index"] % max(1, -(-word["need"] // room)) == 0

    shown = [word["down"] for word in here if seen(word)]
    assert (shown.count(0.0), shown.count(1.0)) == (heads, sides)
    svg = vl_convert.vegalite_to_svg(
        json.dumps(
            picture(found, "float32")
            | {
                "width": width,
                "datasets": {
                    name: data.to_pylist()
                    for name, data in picture(found, "float32")["datasets"].items()
                },
            }
        )
    )
    visible = [
        text
        for text in ("0:64", "64:128", "128:192")
        if not re.search(rf'<text[^>]*opacity="0"[^>]*>{text}<', svg)
    ]
    assert visible == (["0:64", "64:128", "128:192"] if width > 600 else ["0:64", "128:192"])


def test_a_strip_and_a_scalar_have_no_scale():
    for case in ("strip", "scalar"):
        found = layout(*CASES[case])
        assert scale_note(found) is None
        assert not any("to scale" in label["text"] for label in rows(found, "outside"))


@pytest.mark.parametrize(
    ("target", "mesh", "counts", "words"),
    [
        ("gpu:h100:2x8", {"x": 4, "y": 4}, (2, 8), "x spans 2 domains, over the network; y shares"),
        ("gpu:gb200:72", {"x": 72}, (1, 18, 4), "1 NVLink domain of 72 GPUs, hosts of 4: x shares"),
    ],
)
def test_gpus_are_drawn_by_nvlink_domain(target, mesh, counts, words):
    experiment = parse_experiment(
        {
            "workload": "array",
            "target": target,
            "mesh": mesh,
            "dims": {"d0": 144},
            "sharding": {"d0": "x"},
        }
    )
    found, domains = layout_of(experiment), domains_of(experiment)
    assert domains is not None and domains.counts == counts
    assert words in (domains_words(experiment) or "")
    chart = picture(found, "float32", domains)
    drawn = chart["datasets"]["cells"].to_pylist()[-found.device_count :]
    assert [each["devices"] for each in drawn] == list(map(str, range(found.device_count)))
    assert domains_of(parse_experiment({"workload": "array", "mesh": {"x": 8}})) is None


@pytest.mark.parametrize("target", ["cluster:local:2", "cluster:pod"])
def test_devices_of_several_hosts_are_drawn_by_host(target):
    experiment = parse_experiment(
        {"workload": "array", "target": target, "mesh": {"x": 2, "y": 2}, "dims": {"d0": 8}}
    )
    # as JAX may list them on a slice: neighbors of a host are not neighbors in the list
    listed = [{"id": at, "process": at % 2, "memory_kinds": []} for at in range(4)]
    changes = {"process_count": 2, "device_count": 4, "devices": listed, "simulated": False}
    environment = Environment.model_validate(ENVIRONMENT | changes)
    found = with_hosts(layout_of(experiment), experiment, environment)
    hosts = hosts_of(found)
    assert hosts is not None and (hosts.title, hosts.counts) == ("2 hosts of 2 devices", (2, 2))
    drawn = picture(found, "float32", hosts)["datasets"]["cells"].to_pylist()[-4:]
    order = [0, 1, 2, 3] if target == "cluster:local:2" else [0, 2, 1, 3]
    assert [int(each["devices"]) for each in drawn] == order
    alone = parse_experiment({"workload": "array", "mesh": {"x": 8}})
    assert hosts_of(with_hosts(layout_of(alone), alone, environment)) is None


@pytest.mark.parametrize("width", [250, 345, 632, 900])
@pytest.mark.parametrize("shape", [(131072, 65536), (4096, 2048), (64, 64)])
def test_row_labels_have_their_pixels_left_of_the_cells_at_every_width(width, shape):
    """Else the browser cuts their first digits, or shrinks the picture for them."""
    found = layout((("x", 8), ("y", 8)), shape, (("x",), ("y",)))
    spec = picture(found, "float32")
    words = spec["datasets"]["outside"].to_pylist()
    spec["datasets"] = {name: data.to_pylist() for name, data in spec["datasets"].items()}
    svg = vl_convert.vegalite_to_svg(json.dumps(spec | {"width": width}))
    labels = {word["text"] for word in words if word["align"] == "right" and word["down"]}
    left = {
        text: float(x)
        for x, text in re.findall(
            r'<text text-anchor="end" transform="translate\(([\d.]+),[^>]*>([^<]+)<', svg
        )
    }
    assert labels <= left.keys()
    assert all(left[text] >= 5.6 * len(text) for text in labels)


def test_a_line_of_a_title_fits_a_phone():
    found = layout((("x", 16), ("y", 16)), (131072, 65536), (("x", "y"), ()))
    words = picture(found, "float32")["datasets"]["outside"].to_pylist()
    assert max(len(word["text"]) for word in words) <= 62

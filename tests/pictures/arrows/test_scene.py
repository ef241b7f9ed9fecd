"""Where devices and arrows are drawn, and what is said of them."""

import pytest

from spmd_core.facts import Collective
from spmd_core.pictures import Traffic, traffic
from spmd_core.pictures.arrows.scene import MOST_NODES, scene
from spmd_lab.ui.arrows import words
from spmd_lab.ui.arrows.chart import chart
from tests.pictures.arrows.test_traffic import MIB, one, stand_of


def drawn_of(target, mesh, kind="all-gather", nbytes=4 * MIB):
    stand = stand_of(target, mesh)
    collective = one(stand, kind, [tuple(range(len(stand.numbers)))], nbytes)
    found = traffic(stand, [collective])
    return stand, found, scene(stand, found)


@pytest.mark.parametrize(
    ("target", "mesh", "nodes", "planes"),
    [
        ("cpu:8", {"x": 8}, 8, 1),
        ("cpu:8", {"x": 2, "y": 4}, 8, 1),
        ("cpu:64", {"x": 64}, 64, 1),
        ("tpu:v5e:8x8", {"x": 64}, 64, 1),
        ("tpu:v5p:4x4x4", {"x": 64}, 64, 4),
        ("cpu:256", {"x": 256}, 256, 1),
        ("tpu:v5e:16x16", {"x": 256}, 256, 1),
    ],
)
def test_up_to_256_devices_each_is_drawn_where_it_stands(target, mesh, nodes, planes):
    _, found, drawn = drawn_of(target, mesh)
    assert (len(drawn.nodes), drawn.planes) == (nodes, planes) and not drawn.by_host
    assert len({(node.column, node.row) for node in drawn.nodes}) == nodes
    assert len(drawn.arrows) == len(found.links)
    assert all(
        0 <= node.column < drawn.columns and 0 <= node.row < drawn.rows for node in drawn.nodes
    )


def test_beyond_256_a_square_is_a_host_and_the_caption_says_so():
    _, found, drawn = drawn_of("tpu:v5p:8x8x8", {"x": 512})
    assert drawn.by_host and len(drawn.nodes) <= MOST_NODES
    assert drawn.inside > 0
    said = " ".join(words.notes(found, drawn))
    assert said.startswith("Drawn by host: a square is a host with its chips; ")
    assert "stay within hosts" in said


def test_of_many_planes_those_from_the_busiest_link_on_are_drawn():
    stand, _, _ = drawn_of("tpu:v5p:8x8x28", {"x": 1792})
    late = stand.places.index((0, 0, 20, 0, 0)), stand.places.index((1, 0, 20, 0, 0))
    found = traffic(
        stand,
        [
            Collective(
                kind="collective-permute",
                axes=("x",),
                count=1,
                bytes=MIB,
                groups=(tuple(stand.numbers[at] for at in late),),
            )
        ],
    )
    drawn = scene(stand, found)
    assert drawn.planes < drawn.planes_in_all == 28
    assert drawn.panels[0].name == "z=12"
    assert any("planes are drawn" in note for note in words.notes(found, drawn))


def test_the_answer_names_the_busiest_link_its_axis_and_its_time():
    stand, found, drawn = drawn_of("tpu:v5e:16x16", {"x": 256}, nbytes=1024 * MIB)
    said = words.headline(stand, found, "in one call")
    # 1 GiB (1 - 1/256) into every device, by four links of 50 GB/s
    assert said == (
        "The busiest link carries 255.0 MiB in one call, device 0 → 16 over `x`: "
        "5.35 ms at its nominal 50 GB/s; 1,023 more carry as much."
    )
    assert said in words.alt(stand, found, drawn, "in one call")


def test_simulated_devices_have_no_rate():
    stand, found, _ = drawn_of("cpu:8", {"x": 8})
    assert words.headline(stand, found, "in one call") == (
        "The busiest link carries 3.5 MiB in one call, device 0 → 1 over `x`; 7 more carry as much."
    )


def test_why_there_is_no_arrow_is_one_sentence():
    assert words.nothing(Traffic(one_device=2)) == "Nothing is sent: each group is one device."
    assert words.nothing(Traffic(unread=1)).startswith("Which devices take part in 1 collective ")
    assert words.nothing(Traffic()).startswith("Nothing is sent: no collective moves any byte")


def test_groups_that_follow_no_axis_are_shown_as_devices():
    stand = stand_of("cpu:8", {"x": 8})
    odd = one(stand, "all-reduce", [(0, 3), (1, 2)])
    assert words.among(odd, stand, ((0, 3), (1, 2))) == " among devices 0, 3 | 1, 2"
    even = one(stand, "all-reduce", [tuple(range(8))])
    assert words.among(even, stand, (tuple(range(8)),)) == " over x"


def test_the_picture_has_an_arrow_for_each_link_and_marks_the_busiest():
    stand, _, drawn = drawn_of("tpu:v5e:4x4", {"x": 16})
    rows = chart(stand, drawn)["datasets"]["arrows"].to_pylist()
    assert len(rows) == len(drawn.arrows)
    assert sum(row["width"] == 5.0 for row in rows) == 1 and rows[-1]["width"] == 5.0


def test_slices_run_the_program_of_the_first():
    stand = stand_of("tpu:v5e:4x4*2", {"x": 2, "y": 16})
    first = one(stand, "all-reduce", [tuple(range(16))], axes=("y",))
    found = traffic(stand, [first])
    assert {stand.places[link.source][4] for link in found.links} == {0, 1}


@pytest.mark.parametrize(
    ("target", "mesh"),
    [("cpu:8", {"x": 8}), ("cpu:8", {"x": 2, "y": 4}), ("tpu:v5e:4x4", {"x": 16})],
)
@pytest.mark.parametrize("kind", ["all-gather", "all-to-all"])
def test_labels_of_arrows_overlap_neither_each_other_nor_squares(target, mesh, kind):
    stand, _, drawn = drawn_of(target, mesh, kind)
    spec = chart(stand, drawn)
    rows = [row for row in spec["datasets"]["arrows"].to_pylist() if row["label"]]
    across, down = (
        98,
        spec["height"] / (drawn.rows + 0.8),
    )  # pixels of a step, the least with labels
    boxes = [
        (row["tx"] * across, row["ty"] * down, 5.8 * len(row["label"]) / 2, 5.5) for row in rows
    ]
    squares = [
        (node.column * across, node.row * down, 0.3 * across, 0.3 * down) for node in drawn.nodes
    ]
    assert rows
    for at, (x, y, wide, tall) in enumerate(boxes):
        for left, top, half, high in (*boxes[:at], *squares):
            assert abs(x - left) >= wide + half or abs(y - top) >= tall + high, rows[at]

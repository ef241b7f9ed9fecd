"""What mesh axes are on the torus, in words and bandwidth."""

import pytest

from spmd_core.machine import get_topology
from spmd_core.time.cost.constants import HOP_LATENCY_S, LAUNCH_S, LINK_EFFICIENCY
from spmd_core.time.cost.mesh_axes import GATHERED_BYTES, mesh_axes, mesh_collective_s, narrowed_by


@pytest.mark.parametrize(
    ("name", "mesh", "order", "words"),
    [
        ("v5e:16x16", [("fsdp", 256)], "topology", ["a torus of 16 × 16 over x and y"]),
        (
            "v5e:16x16",
            [("fsdp", 16), ("tensor", 16)],
            "topology",
            ["a ring of 16 along y", "a ring of 16 along x"],
        ),
        (
            "v5e:16x16",
            [("fsdp", 16), ("tensor", 16)],
            "plain",
            [
                "a torus of 2 × 8 over x and y, every 8th chip along x, every 2nd chip along y",
                "a grid of 8 × 2 over x and y",
            ],
        ),
        (
            "v5e:4x4",
            [("data", 4), ("fsdp", 4), ("tensor", 1)],
            "topology",
            ["a line of 4 along y", "a line of 4 along x", "one device: nothing to communicate"],
        ),
        (
            "v5e:8x16",
            [("fsdp", 32), ("tensor", 4)],
            "topology",
            [
                "a grid of 2 × 16 over x and y, y a ring, every 4th chip along x",
                "a line of 4 along x",
            ],
        ),
        (
            "v5e:16x16*2",
            [("data", 2), ("fsdp", 256)],
            "topology",
            ["2 slices over DCN", "a torus of 16 × 16 over x and y"],
        ),
        ("v5p:8x8x8", [("fsdp", 512)], "plain", ["a torus of 8 × 8 × 8 over x, y and z"]),
        (
            "v3:4x4",
            [("fsdp", 8), ("tensor", 4)],
            "topology",
            [
                "a grid of 2 × 4 over x and y, every 2nd chip along x",
                "the 2 devices of a chip and a line of 2 along x",
            ],
        ),
    ],
)
def test_axes_in_words(name, mesh, order, words):
    assert [axis.words for axis in mesh_axes(get_topology(f"tpu:{name}"), mesh, order)] == words


def test_a_ring_gathers_at_the_bandwidth_of_both_directions():
    ring, _ = mesh_axes(get_topology("tpu:v5e:16x16"), [("fsdp", 16), ("tensor", 16)])
    by_hand = LAUNCH_S + 8 * HOP_LATENCY_S + GATHERED_BYTES * 15 / 16 / (2 * 5e10 * LINK_EFFICIENCY)
    assert ring.gather_s == pytest.approx(by_hand)
    assert ring.words == "a ring of 16 along y"


def test_plain_order_is_slower_where_it_interleaves():
    topology, mesh = get_topology("tpu:v5e:16x16"), [("fsdp", 16), ("tensor", 16)]
    placed, plain = mesh_axes(topology, mesh), mesh_axes(topology, mesh, "plain")
    assert plain[0].gather_s and placed[0].gather_s
    assert plain[0].gather_s > 1.5 * placed[0].gather_s


@pytest.mark.parametrize(
    ("name", "mesh", "order", "apart"),
    [
        ("v5e:4x4", [("fsdp", 16)], "topology", 1.0),  # a closed path through all chips
        # by hand: see the listing by hosts of 2 x 2
        ("v5e:4x4", [("fsdp", 16)], "plain", (8 + 4 * 2 + 2 * 2 + 4 + 6) / 16),
        # the ring closes over the link that wraps around
        ("v5e:16x16", [("fsdp", 16), ("tensor", 16)], "topology", 1.0),
        ("v5e:4x4", [("fsdp", 4), ("tensor", 4)], "topology", 1.5),  # a line: 1, 1, 1 and 3 back
        ("v5e:4x4*2", [("data", 2), ("fsdp", 16)], "topology", None),
    ],
)
def test_neighbours_are_so_many_links_apart(name, mesh, order, apart):
    found = mesh_axes(get_topology(f"tpu:{name}"), mesh, order)[0].links_apart
    assert found == (apart if apart is None else pytest.approx(apart))


@pytest.mark.parametrize(
    ("name", "mesh", "axes"),
    [
        ("v5e:2x4", [("x", 2), ("y", 4)], ("x", "y")),
        ("v5p:2x2x2", [("x", 8)], ("x",)),
        ("v5e:2x4", [("x", 8)], ("x",)),
        ("v5e:16x16", [("x", 256)], ("x",)),
    ],
)
def test_a_permute_over_one_link_takes_the_time_of_one_link(name, mesh, axes):
    topology, nbytes = get_topology(f"tpu:{name}"), 2**30
    seconds = mesh_collective_s(topology, "topology", "collective-permute", mesh, axes, nbytes)
    one_link_s = nbytes / (topology.chip.link_bandwidth * LINK_EFFICIENCY)
    assert seconds == pytest.approx(one_link_s, rel=0.01)
    assert narrowed_by(topology, "topology", "collective-permute", mesh, axes) == "one link only"
    assert narrowed_by(topology, "topology", "all-reduce", mesh, axes) == ""

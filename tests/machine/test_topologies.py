"""Topologies: names, legal shapes, the nearest ones, wraparound."""

import re

import pytest

from spmd_core.base import RequestError
from spmd_core.machine import TPUS, parse_target
from spmd_core.machine.topologies import get_topology, nearest_shapes
from spmd_core.machine.topology import legal_shapes


def test_a_topology_is_read_with_its_slices():
    topology = get_topology("tpu:v5e:16x16*2")
    assert (topology.name, topology.chips, topology.devices, topology.slices) == (
        "v5e:16x16*2",
        512,
        512,
        2,
    )
    assert get_topology("v3:4x4").devices == 32  # two devices per chip


@pytest.mark.parametrize(
    ("text", "wraps"),
    [
        ("v5e:16x16", (True, True)),
        ("v5e:8x16", (False, True)),
        ("v6e:8x8", (False, False)),
        ("v3:32x32", (True, True)),
        ("v5p:4x4x4", (True, True, True)),
        ("v5p:4x4x8", (True, True, True)),
        ("v5p:2x2x4", (False, False, False)),
        ("v4:2x4x4", (False, False, False)),
    ],
)
def test_an_axis_wraps_where_its_generation_links_the_ends(text, wraps):
    """As in "How to Scale Your Model", chapter 2, with its own examples: v5e 8x16, v5p 2x2x4 and
    4x4x8.
    """
    assert get_topology(text).wraps == wraps


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tpu:v5e:4x5", "use tpu:v5e:4x4 or tpu:v5e:4x8"),
        ("tpu:v5p:8x8", "is not a shape of TPU v5p: use tpu:v5p:4x4x4"),
        ("tpu:v5e:3x5", "use tpu:v5e:4x4 or tpu:v5e:2x4"),
        ("tpu:v5e:3x5*2", "use tpu:v5e:4x4*2 or tpu:v5e:2x4*2"),
        (
            "tpu:v7:2x2",
            "generation 'v7' is not one that the TPU compiler knows: use tpu:tpu7x:2x2x1 or "
            "tpu:tpu7x:2x2x2",
        ),
        ("tpu:v5:2x2", "use tpu:v5e:2x2 or tpu:v5p:2x2x1"),
        (
            "tpu:v9:2x2",
            f"is not one that the TPU compiler knows: use one of {', '.join(TPUS)}",
        ),
        ("tpu:v5e:4x4*999", "999 slices are out of range"),
        ("cpu:8", "is not a TPU topology"),
    ],
)
def test_a_bad_topology_is_refused_with_what_is_near(text, words):
    with pytest.raises(RequestError, match=re.escape(words)):
        get_topology(parse_target(text))


@pytest.mark.parametrize("generation", TPUS)
def test_legal_shapes_fit_the_pod_and_are_their_own_nearest(generation):
    shapes = legal_shapes(generation)
    assert len(shapes) == len(set(shapes)) >= 6
    for shape in shapes:
        assert all(
            size <= most
            for size, most in zip(sorted(shape), sorted(TPUS[generation].max_shape), strict=True)
        )
        assert nearest_shapes(generation, shape)[0] == shape


@pytest.mark.parametrize("chip", TPUS.values(), ids=lambda chip: chip.generation)
def test_every_figure_of_a_chip_has_a_source(chip):
    for what in ("peak", "HBM", "links", "dcn", "host", "clock"):
        assert what in chip.sources
    assert chip.device_flops * chip.devices_per_chip == chip.peak_flops


def test_a_slice_has_its_type_on_google_cloud_where_that_counts_cores():
    names = ("v5p:2x2x2", "v5p:4x4x4*2", "v5e:2x4", "gpu:h100:1x8")
    assert [get_topology(name).called for name in names] == [
        "8 chips, v5p-16 on Google Cloud",
        "128 chips, v5p-128 each on Google Cloud",
        "8 chips",
        "8 chips",
    ]

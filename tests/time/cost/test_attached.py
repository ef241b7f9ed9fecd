"""The topology of attached TPUs, from their kind and coordinates."""

import pytest

from spmd_core.base import RequestError
from spmd_core.time import cluster_of


def places(*sizes, cores=1, slices=1, start=(0, 0, 0)):
    x, y, z = (*sizes, 1, 1)[:3]
    return [
        (start[0] + i, start[1] + j, start[2] + k, core, number)
        for number in range(slices)
        for k in range(z)
        for j in range(y)
        for i in range(x)
        for core in range(cores)
    ]


@pytest.mark.parametrize(
    ("kind", "held", "name"),
    [
        ("TPU v5 lite", places(2, 4), "v5e:2x4"),
        ("TPU v5 lite", places(1, 1), "v5e:1x1"),
        ("TPU v5e", places(4, 2), "v5e:4x2"),
        ("TPU v6 lite", places(16, 16), "v6e:16x16"),
        ("TPU v5", places(2, 2, 1), "v5p:2x2x1"),
        ("TPU v5p", places(4, 4, 8), "v5p:4x4x8"),
        ("TPU v4", places(2, 2, 1), "v4:2x2x1"),
        ("TPU v3", places(2, 2, cores=2), "v3:2x2"),
        ("TPU7x", places(2, 2, 1, cores=2), "tpu7x:2x2x1"),
        ("TPU v5 lite", places(4, 4, slices=2), "v5e:4x4*2"),
    ],
)
def test_devices_form_the_topology_that_their_coordinates_fill(kind, held, name):
    found = cluster_of(kind, held, held).topology
    assert found.name == name and found.devices == len(held)


@pytest.mark.parametrize(
    ("kind", "held"),
    [
        ("TPU v99", places(2, 2)),
        ("NVIDIA H100", places(2, 2)),
        ("TPU v5 lite", []),
        ("TPU v5 lite", places(2, 2)[:3]),
        # without megacore: two devices on a chip, whose rates are of half a chip
        ("TPU v4", places(2, 2, 1, cores=2)),
        ("TPU v3", places(2, 2)),
        ("TPU v5 lite", places(2, 2, 2)),
        ("TPU v5 lite", places(32, 16)),
        ("TPU v5 lite", places(2, 2) + places(2, 2)),
        ("TPU v5 lite", [*places(2, 2), *((x, y, 0, 0, 1) for x in range(4) for y in range(1))]),
    ],
)
def test_what_is_no_whole_box_of_a_known_chip_has_no_topology(kind, held):
    with pytest.raises(RequestError):
        cluster_of(kind, held, held)


def test_coordinates_are_counted_from_the_least_and_slices_from_nought():
    every = [(x + 2, y + 4, 0, 0, 7) for x in range(2) for y in range(2)]
    cluster = cluster_of("TPU v5 lite", every, [every[3], every[0]])
    assert cluster.topology.name == "v5e:2x2" and cluster.coordinates == (
        (1, 1, 0, 0, 0),
        (0, 0, 0, 0, 0),
    )
    with pytest.raises(RequestError, match="is not among the attached ones"):
        cluster_of("TPU v5 lite", every, [(9, 9, 0, 0, 7)])

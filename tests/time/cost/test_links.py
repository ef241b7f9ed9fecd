"""Collectives on rings, lines and tori, against the formulas by hand."""

import itertools
import math

import numpy as np
import pytest

from spmd_core.machine import get_topology, mesh_groups, mesh_places
from spmd_core.time import mesh_collective_s
from spmd_core.time.cost.constants import DCN_EFFICIENCY, DCN_LATENCY_S, LINK_EFFICIENCY
from spmd_core.time.cost.links import (
    EXPECTED,
    NOMINAL as NOMINAL_RATES,
    collective_s,
    dcn_bandwidth,
    exchange_s,
    hops,
    paths,
    permute_s,
    route,
    route_of,
)

MIB_128 = 128 * 2**20
NOMINAL = LINK_EFFICIENCY * 5e10  # bytes per second of a v5e link, one way


def devices(topology):
    """Coordinates of every device, row-major, slice after slice."""
    x, y, *z = topology.shape
    return [
        (i, j, k, 0, s)
        for s in range(topology.slices)
        for i in range(x)
        for j in range(y)
        for k in range(z[0] if z else 1)
    ]


def seconds(name, kind, group=None, nbytes=MIB_128):
    topology = get_topology(name)
    places = devices(topology)
    return collective_s(
        topology, kind, route(topology, group or range(len(places)), places), nbytes
    )


def permute(topology, pairs, places, nbytes, rates=EXPECTED):
    ways = paths(topology, pairs, places)
    return permute_s(topology, ways, nbytes, rates), ways.used


@pytest.mark.parametrize(
    ("name", "kind", "by_hand"),
    [
        # two rings, both ways round each
        ("v5e:16x16", "all-gather", MIB_128 * 255 / 256 / (4 * NOMINAL)),
        ("v5e:16x16", "all-reduce", 2 * MIB_128 * 255 / 256 / (4 * NOMINAL)),
        ("v5e:16x16", "all-to-all", 16 * MIB_128 / (8 * NOMINAL)),
        # two lines, one way each into the corner
        ("v5e:2x4", "all-gather", MIB_128 * 7 / 8 / (2 * NOMINAL)),
        ("v5e:2x4", "all-to-all", 4 * MIB_128 / (4 * NOMINAL)),
        ("v5p:4x4x4", "reduce-scatter", MIB_128 * 63 / 64 / (6 * 2 * NOMINAL)),
    ],
)
def test_a_whole_topology_takes_the_time_of_its_rings_and_lines(name, kind, by_hand):
    assert 1.0 < seconds(name, kind) / by_hand < 1.05  # the rest is latency


def test_one_axis_of_a_torus_has_half_the_links():
    column = [16 * i for i in range(16)]  # along x
    assert seconds("v5e:16x16", "all-gather", column) / (
        MIB_128 * 15 / 16 / (2 * NOMINAL)
    ) == pytest.approx(1, abs=0.02)


def test_groups_that_interleave_on_an_axis_share_its_links():
    every_second, half = [0, 2, 4, 6, 8, 10, 12, 14], [0, 1, 2, 3, 4, 5, 6, 7]  # along y of 16x16
    topology = get_topology("v5e:16x16")
    apart, together = (route(topology, group, devices(topology)) for group in (every_second, half))
    assert (apart.spans[0].stride, apart.spans[0].wraps) == (2, True)
    assert (together.spans[0].stride, together.spans[0].wraps) == (1, False)
    assert seconds("v5e:16x16", "all-gather", every_second) == pytest.approx(
        seconds("v5e:16x16", "all-gather", half), rel=0.01
    )


def test_between_slices_the_data_centre_network_binds():
    one, two = seconds("v5e:16x16", "all-reduce"), seconds("v5e:16x16*2", "all-reduce")
    part = MIB_128 / 256  # what each chip has to exchange after the reduce-scatter within its slice
    assert two - one == pytest.approx(DCN_LATENCY_S + part / (3.125e9 * DCN_EFFICIENCY), rel=1e-6)


def test_a_shift_along_a_ring_takes_one_hop_and_both_shifts_do_not_contend():
    topology = get_topology("v5p:4x4x4")
    places = devices(topology)
    ahead = [(i, i - i % 4 + (i + 1) % 4) for i in range(64)]
    time, used = permute(topology, ahead, places, MIB_128)
    back, other = permute(topology, [(b, a) for a, b in ahead], places, MIB_128)
    assert (used, other) == (("ici z+",), ("ici z-",))
    assert time == back == pytest.approx(MIB_128 / (1e11 * LINK_EFFICIENCY), rel=0.01)


def test_a_shift_around_a_line_crosses_it_whole():
    topology = get_topology("v5e:4x4")
    time, used = permute(topology, [(0, 1), (1, 2), (2, 3), (3, 0)], devices(topology), MIB_128)
    assert used == ("ici y+", "ici y-")
    assert time == pytest.approx(MIB_128 / NOMINAL, rel=0.01)  # the way back has its own direction


def test_the_bound_is_the_nominal_rate_without_latency():
    topology = get_topology("v5e:16x16")
    where = route(topology, range(256), devices(topology))
    assert collective_s(topology, "all-gather", where, MIB_128, NOMINAL_RATES) == pytest.approx(
        MIB_128 * 255 / 256 / (4 * 5e10), rel=1e-9
    )
    pairs = [(i, i - i % 16 + (i + 1) % 16) for i in range(256)]
    assert permute(topology, pairs, devices(topology), MIB_128, NOMINAL_RATES)[0] == pytest.approx(
        MIB_128 / 5e10, rel=1e-9
    )


def where_of(name):
    topology = get_topology(name)
    return route(topology, range(topology.devices), devices(topology))


def test_hops_count_the_way_to_the_farthest_chip():
    assert hops(where_of("v5e:16x16").spans) == 16  # half of each ring
    assert hops(where_of("v5e:2x4").spans) == 4  # one and three links


def test_an_exchange_between_slices_is_bound_by_the_network():
    topology = get_topology("v5e:2x4*2")
    between = DCN_LATENCY_S + MIB_128 / 2 / dcn_bandwidth(topology)
    within = exchange_s(get_topology("v5e:2x4"), where_of("v5e:2x4"), MIB_128)
    assert dcn_bandwidth(topology) == 3.125e9 * DCN_EFFICIENCY
    assert exchange_s(topology, where_of("v5e:2x4*2"), MIB_128) == pytest.approx(
        between + within, rel=1e-6
    )


def test_paths_count_messages_over_the_busiest_link():
    """On a line of four, two messages of 0 -> 3 and 1 -> 3 share the links from 1 on."""
    topology = get_topology("v5e:4x4")
    ways = paths(topology, [(0, 3), (1, 3)], devices(topology))
    assert (ways.busiest, ways.longest, ways.used, ways.crosses_slices) == (
        2,
        3,
        ("ici y+",),
        False,
    )
    assert permute_s(topology, ways, MIB_128, NOMINAL_RATES) == pytest.approx(2 * MIB_128 / 5e10)
    two = get_topology("v5e:4x4*2")
    assert paths(two, [(0, 16)], devices(two)).used == ("dcn",)


@pytest.mark.parametrize(
    ("target", "sizes"),
    [
        *(("tpu:v5e:2x4", sizes) for sizes in [(2, 4), (4, 2), (2, 2, 2), (8,)]),
        *(("tpu:v5e:4x4", sizes) for sizes in [(2, 8), (8, 2), (4, 4), (2, 2, 4), (16,)]),
        ("tpu:v5e:2x2", (2, 2)),
        *(("tpu:v5p:2x2x2", sizes) for sizes in [(2, 4), (4, 2), (2, 2, 2)]),
        ("tpu:v5e:4x8", (2, 16)),
    ],
)
@pytest.mark.parametrize("order", ["topology", "plain"])
def test_no_collective_is_faster_than_the_links_between_two_parts_of_the_slice(
    target, sizes, order
):
    topology, nbytes = get_topology(target), 1e9
    mesh = tuple(zip("abc", sizes, strict=False))
    places = mesh_places(topology, sizes, order)
    for count in range(1, len(mesh) + 1):
        for axes in itertools.combinations([name for name, _ in mesh], count):
            groups = mesh_groups(places, mesh, axes)
            taken = {
                kind: mesh_collective_s(topology, order, kind, mesh, axes, nbytes, nominal=True)
                for kind in ("all-reduce", "all-gather", "all-to-all")
            }
            for axis, length in enumerate(topology.shape):
                rows = math.prod(topology.shape) // length * topology.chip.link_bandwidth
                for at in range(1, length):
                    low = (groups[:, :, axis] < at).mean(axis=1)
                    both = (low > 0) & (low < 1)
                    links = rows * (2 if topology.wraps[axis] else 1)
                    least = {
                        "all-reduce": both.sum(),
                        "all-gather": (np.maximum(low, 1 - low) * both).sum(),
                        "all-to-all": (low * (1 - low)).sum() * groups.shape[1],
                    }
                    for kind, bound in least.items():
                        assert taken[kind] >= 0.999 * bound * nbytes / links, (kind, axes, axis, at)


def test_chips_that_form_no_subgrid_share_their_links_with_the_other_groups():
    topology = get_topology("tpu:v5e:2x4")
    where = route_of(topology, (("x", 2), ("y", 4)), "topology", ("x",))
    assert where.scattered and where.scattered.size == where.inner == 2
    assert where.words.startswith("2 chips scattered over")
    alone = route(topology, (0, 1), [(0, 0, 0, 0, 0), (1, 3, 0, 0, 0)], [(0, 1)])
    assert alone.scattered.in_ring < where.scattered.in_ring, "four such pairs at once"

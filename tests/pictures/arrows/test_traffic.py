"""Bytes on links, against small meshes that were counted by hand, and against the cost model."""

import pytest

from spmd_core.experiment import parse_experiment
from spmd_core.facts import Collective
from spmd_core.pictures import Placed, follows_axes, groups_in_mesh, placed, traffic
from spmd_core.pictures.arrows.flows import unit_flows
from spmd_core.time.cost.links import NOMINAL, collective_s, paths, permute_s, route

MIB = 2**20


def stand_of(target="cpu:4", mesh=None, **spec) -> Placed:
    return placed(
        parse_experiment(
            {
                "workload": "layer",
                "target": target,
                "dims": {"batch": 1024, "in": 1024, "out": 1024},
                "mesh": mesh or {"x": 4},
                **spec,
            }
        )
    )


def one(stand, kind, groups, nbytes=MIB, **changes) -> Collective:
    """A collective whose groups are positions in `mesh.devices`."""
    named = tuple(tuple(stand.numbers[at] for at in group) for group in groups)
    return Collective(
        **({"kind": kind, "axes": ("x",), "groups": named, "bytes": nbytes, "count": 1} | changes)
    )


def loads(found):
    return {(link.source, link.target): link.nbytes for link in found.links}


@pytest.mark.parametrize(
    ("kind", "each"), [("all-gather", 0.75), ("reduce-scatter", 0.75), ("all-reduce", 1.5)]
)
def test_simulated_devices_pass_shards_round_a_ring(kind, each):
    stand = stand_of()
    found = traffic(stand, [one(stand, kind, [(0, 1, 2, 3)])])
    assert loads(found) == {
        (0, 1): each * MIB,
        (1, 2): each * MIB,
        (2, 3): each * MIB,
        (3, 0): each * MIB,
    }


def test_gpus_send_over_nvlink_and_between_domains_over_the_network():
    stand = stand_of("gpu:h100:2x2", {"x": 4})
    found = traffic(stand, [one(stand, "all-gather", [(0, 1, 2, 3)])])
    ways = {(link.source, link.target): link.way for link in found.links}
    assert ways == {(0, 1): "nvlink", (1, 2): "dcn", (2, 3): "nvlink", (3, 0): "dcn"}
    assert {link.nbytes for link in found.links} == {0.75 * MIB}


def test_an_exchange_goes_from_each_to_each_and_a_permute_along_its_pairs():
    stand = stand_of()
    found = traffic(stand, [one(stand, "all-to-all", [(0, 1, 2, 3)])])
    assert len(found.links) == 12 and sum(loads(found).values()) == pytest.approx(4 * 0.75 * MIB)
    found = traffic(stand, [one(stand, "collective-permute", [(0, 1), (1, 0), (2, 2)])])
    assert loads(found) == {(0, 1): MIB, (1, 0): MIB}


def test_on_a_line_the_link_at_its_end_carries_most():
    stand = stand_of("tpu:v5e:4x4", {"x": 4, "y": 4})
    found = traffic(stand, [one(stand, "all-gather", [(0, 1, 2, 3)], 4 * MIB, axes=("y",))])
    # V (1 - 1/4) into the last chip, over its only link; 2/3 and 1/3 of it before: in all the
    # parts of the others, into every device
    assert sorted(link.nbytes / MIB for link in found.links) == pytest.approx([1, 1, 2, 2, 3, 3])
    assert found.busiest and found.busiest.axes == ("y",)


@pytest.mark.parametrize(
    ("target", "mesh"),
    [
        ("tpu:v5e:4x4", {"x": 16}),
        ("tpu:v5e:2x4", {"x": 8}),
        ("tpu:v5e:16x16", {"x": 256}),
        ("tpu:v5p:4x4x4", {"x": 64}),
        ("tpu:v5e:8x8", {"x": 64}),
    ],
)
@pytest.mark.parametrize(("kind", "rounds"), [("all-gather", 1), ("all-reduce", 2)])
def test_bytes_sum_to_the_volume_of_the_collective(target, mesh, kind, rounds):
    stand = stand_of(target, mesh)
    every = tuple(range(len(stand.numbers)))
    found = sum(unit_flows(stand, kind, (every,)).values())
    assert found == pytest.approx(rounds * (len(every) - 1))  # n devices x V (1 - 1/n)


@pytest.mark.parametrize(
    ("target", "mesh"),
    [
        ("tpu:v5e:4x4", {"x": 4, "y": 4}),
        ("tpu:v5e:16x16", {"x": 16, "y": 16}),
        ("tpu:v5e:16x16", {"x": 32, "y": 8}),
        ("tpu:v5p:4x4x4", {"x": 16, "y": 4}),
        ("tpu:v5e:8x16", {"x": 8, "y": 16}),
        ("tpu:v5e:4x4*2", {"x": 2, "y": 16}),
    ],
)
@pytest.mark.parametrize("kind", ["all-gather", "reduce-scatter", "all-reduce", "all-to-all"])
def test_the_busiest_link_takes_the_seconds_of_the_cost_model(target, mesh, kind):
    stand = stand_of(target, mesh)
    size = mesh["y"]
    groups = tuple(tuple(range(at, at + size)) for at in range(0, len(stand.numbers), size))
    assert stand.topology and stand.places
    busiest = max(unit_flows(stand, kind, groups).values())
    expected = max(
        collective_s(stand.topology, kind, route(stand.topology, group, stand.places), MIB, NOMINAL)
        for group in groups
    )
    assert busiest * MIB / stand.topology.chip.link_bandwidth == pytest.approx(expected)


def test_a_permute_takes_the_ways_of_the_cost_model():
    stand = stand_of("tpu:v5e:4x4", {"x": 16})
    pairs = tuple((at, (at + 5) % 16) for at in range(16))
    assert stand.topology and stand.places
    busiest = max(unit_flows(stand, "collective-permute", pairs).values())
    ways = paths(stand.topology, pairs, stand.places)
    assert busiest * MIB / stand.topology.chip.link_bandwidth == pytest.approx(
        permute_s(stand.topology, ways, MIB, NOMINAL)
    )


def test_between_slices_each_device_sends_to_those_at_its_place():
    stand = stand_of("tpu:v5e:2x2*2", {"s": 2, "x": 4})
    found = traffic(
        stand,
        [one(stand, "send", [(at, at + 4) for at in range(4)], axes=("s",), asked="all-reduce")],
    )
    assert loads(found) == {
        pair: pytest.approx(MIB) for at in range(4) for pair in ((at, at + 4), (at + 4, at))
    }
    assert {link.way for link in found.links} == {"dcn"}


def test_two_devices_of_a_chip_pass_on_what_its_links_brought():
    stand = stand_of("tpu:v3:2x2", {"x": 8})
    flows = unit_flows(stand, "all-gather", (tuple(range(8)),))
    assert sum(flows.values()) == pytest.approx(4 * 7 / 8 + 8 * 7 / 16)
    assert {way for way, _, _ in flows} == {"x+", "x-", "y+", "y-", "chip"}


def test_a_group_that_fills_no_subgrid_is_a_ring_in_its_own_order_and_said_to_be():
    stand = stand_of("tpu:v5e:4x4", {"x": 16}, options={"device_order": "plain"})
    collective = one(stand, "all-gather", [(0, 3, 9)])
    found = traffic(stand, [collective])
    assert found.as_listed == 1
    assert not follows_axes(((0, 3, 9),), collective, stand)


def test_nothing_is_sent_by_zero_bytes_or_among_one_device():
    stand = stand_of()
    assert traffic(stand, [one(stand, "all-gather", [(0, 1, 2, 3)], 0)]).links == ()
    alone = traffic(stand, [one(stand, "all-reduce", [(0,), (1,), (2,), (3,)], axes=())])
    assert alone.links == () and alone.one_device == 1 and alone.busiest is None


def test_bytes_count_as_often_as_a_collective_runs_and_what_is_unknown_is_counted():
    stand = stand_of()
    often = one(stand, "all-gather", [(0, 1, 2, 3)], count=10)
    for every_time, times in ((True, 10), (False, 1)):
        links = loads(traffic(stand, [often], every_time=every_time))
        assert sum(links.values()) == pytest.approx(times * 3 * MIB)
    unknown = one(stand, "all-gather", [(0, 1, 2, 3)], count=None)
    assert traffic(stand, [unknown]).unknown_count == 1
    foreign = unknown.model_copy(update={"groups": ((77, 78),)})
    assert traffic(stand, [foreign]).unread == 1


HLO = """HloModule jit_f, entry_computation_layout={(f32[2]{0})->f32[256]{0}}, num_partitions=128

ENTRY %main (p: f32[2]) -> f32[256] {
  %p = f32[2]{0} parameter(0)
  ROOT %ag = f32[256]{0} all-gather(%p), channel_id=1, replica_groups=[1,128]<=[128], dimensions={0}, use_global_device_ids=true
}
"""


def test_of_more_devices_than_a_result_names_the_program_text_tells():
    stand = stand_of("cpu:128", {"x": 128})
    unnamed = Collective(kind="all-gather", axes=("x",), bytes=1024, count=1, name="ag")
    assert groups_in_mesh(unnamed, stand) is None
    assert groups_in_mesh(unnamed, stand, HLO) == (tuple(range(128)),)
    other = unnamed.model_copy(update={"axes": ()})  # the result says otherwise: not of this text
    assert groups_in_mesh(other, stand, HLO) is None
    assert groups_in_mesh(unnamed, stand, "no program") is None


def test_devices_stand_by_the_order_of_the_mesh_not_by_their_number():
    stand = stand_of("tpu:v5e:2x4", {"x": 8})
    assert stand.numbers != tuple(range(8))  # mesh_utils makes a ring of them
    found = traffic(stand, [one(stand, "collective-permute", [(3, 4)])])
    # not neighbors there: the message goes through the chip of position 6
    assert loads(found) == {(3, 6): MIB, (6, 4): MIB}

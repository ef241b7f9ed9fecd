"""Shardings of a topology that are one: against every block of every device, and every way to
number the devices anew that keeps each link.
"""

import itertools
from collections import Counter

import numpy as np
import pytest

from spmd_core.machine import get_topology, listed, mesh_places
from spmd_core.search import Space, read_array_question
from spmd_core.search.placement import Placements, is_ambiguous
from spmd_core.search.spaces.array_space import shardings
from spmd_core.surveys.search import rule_words

LAYER = {
    "workload": "layer",
    "mesh": None,
    "sharding": None,
    "dims": {"batch": 32, "in": 64, "out": 16},
}

MLP = LAYER | {"workload": "mlp", "dims": {}}


def links(topology) -> set[frozenset]:
    """Pairs of neighboring devices, by their coordinates."""
    found = set()
    for one, other in itertools.combinations(listed(topology), 2):
        apart = [
            min(abs(a - b), size - abs(a - b)) if wraps else abs(a - b)
            for a, b, size, wraps in zip(
                one[:3], other[:3], (*topology.shape, 1), (*topology.wraps, False), strict=False
            )
        ]
        if sum(apart) == 1 and one[3:] == other[3:]:
            found.add(frozenset((one, other)))
    return found


def renumberings(topology) -> list[dict]:
    """Every permutation of the devices that maps links onto links, by trying them all."""
    devices, there = listed(topology), links(topology)
    return [
        image
        for order in itertools.permutations(devices)
        if all(
            frozenset(map((image := dict(zip(devices, order, strict=True))).get, link)) in there
            for link in there
        )
    ]


def blocks(sharded, what, sizes, topology) -> dict:
    """Device -> the range of each dim of each array that it holds."""
    names = [axis for axis, _ in sharded.mesh]
    places = mesh_places(topology, [size for _, size in sharded.mesh])
    held = {}
    for at in np.ndindex(*places.shape[:-1]):
        index, parts = dict(zip(names, at, strict=True)), []
        for array in what.arrays:
            for dim, axes in zip(
                array.present(sizes), sharded.spec(what, sizes, array.name), strict=True
            ):
                part = 0
                for axis in axes:
                    part = part * dict(sharded.mesh)[axis] + index[axis]
                each = sizes[dim] // sharded.parts(axes)
                parts.append((part * each, part * each + each))
        held[tuple(int(number) for number in places[at])] = tuple(parts)
    return held


@pytest.mark.parametrize(
    ("target", "spec"),
    [
        ("tpu:v5e:2x2", LAYER),
        ("tpu:v5e:2x4", LAYER),
        ("tpu:v5e:2x2", MLP),
        (
            "tpu:v5e:2x2",
            LAYER
            | {
                "workload": "matmul",
                "mesh": {"x": 2, "y": 2},
                "overrides": None,
                "dims": {"m": 8, "k": 8, "n": 8},
                "strategies": ["auto"],
            },
        ),
    ],
)
def test_equal_are_those_whose_devices_hold_the_same_on_some_numbering_that_keeps_the_links(
    target, spec
):
    question, topology = read_array_question(spec | {"target": target}), get_topology(target)
    what, sizes = question.sample.what, question.sample.sizes
    ways, placements = renumberings(topology), Placements(topology)
    found: dict = {}
    every = list(shardings(question))
    for sharded in every:
        held = blocks(sharded, what, sizes, topology)
        form = min(tuple(held[way[device]] for device in listed(topology)) for way in ways)
        found.setdefault(form, set()).add(placements.keys(sharded, what, sizes)[1])
    assert all(len(keys) == 1 for keys in found.values())
    assert len(set.union(*found.values())) == len(found)


def test_an_axis_in_factors_and_one_of_no_use_are_the_same_placement():
    question = read_array_question(LAYER | {"target": "tpu:v5e:4x4"})
    what, sizes = question.sample.what, question.sample.sizes
    placements, keys = Placements(get_topology("tpu:v5e:4x4")), {}
    for sharded in shardings(question):
        keys[sharded.words] = placements.keys(sharded, what, sizes)
    assert keys["x=4,y=4 · batch:x"][0] == keys["x=2,y=2,z=4 · batch:x+y"][0]
    over_rows, over_columns = keys["x=4,y=4 · batch:x"], keys["x=4,y=4 · batch:y"]
    assert over_rows[0] != over_columns[0] and over_rows[1] == over_columns[1]
    assert keys["x=4,y=4 · batch:x"][1] != keys["x=2,y=8 · batch:x"][1]


@pytest.mark.parametrize(
    ("target", "many"),
    [
        ("tpu:v5e:4x4", 8),
        ("tpu:v5e:4x8", 4),
        ("tpu:v5p:2x2x2", 48),
        ("tpu:v5p:4x4x4*2", 48),
        ("tpu:v5p:16x16x24", 1),
    ],
)
def test_how_many_ways_there_are_to_turn_and_mirror_a_topology(target, many):
    ways = Placements(get_topology(target))._symmetries
    assert len(ways) == many
    assert all(Counter(way.tolist()) == Counter(range(len(way))) for way in ways)
    assert ways[0].tolist() == sorted(ways[0].tolist())


def test_every_equal_candidate_names_one_that_is_not_pruned_as_equal():
    space = Space(read_array_question(LAYER | {"target": "tpu:v5e:4x4"}), 2)
    every = list(space.candidates())
    for each in every:
        if each.reason == "equal to another by renaming":
            first = every[each.equal]
            assert first.number < each.number and first.strategy == each.strategy
            assert first.reason != each.reason
            assert "every device what another does" in rule_words(each.detail)


def test_where_an_axis_shards_two_dims_only_programs_written_by_hand_are_equal():
    space = Space(read_array_question(MLP | {"target": "tpu:v5e:4x4"}), 2)
    named: dict = {}
    for each in space.candidates():
        named.setdefault(each.name.rpartition(" · ")[0], {})[each.strategy] = each
    both = [
        each
        for name, each in named.items()
        if any(f"batch:{axis} hidden:{axis}" in name for axis in "xyz")
    ]
    assert any(each["shard_map"].equal is not None for each in both)
    assert all(each[name].equal is None for each in both for name in ("auto", "constrained"))
    assert all(each.equal is not None for each in named["x=4,y=4 · batch:y out:x"].values())


def test_two_axes_over_query_heads_and_key_heads_leave_a_choice_too():
    question = read_array_question(
        {
            "workload": "transformer_block",
            "target": "tpu:v5e:2x4",
            "mesh": {"x": 2, "y": 4},
            "sharding": None,
        }
    )
    what, sizes = question.sample.what, question.sample.sizes
    left = {sharded.words: is_ambiguous(sharded, what, sizes) for sharded in shardings(question)}
    assert left["x=2,y=4 · heads:x kv_heads:y"] and left["x=2,y=4 · batch:x embed:x heads:y"]
    assert not left["x=2,y=4 · batch:x kv_heads:y"] and not left["x=2,y=4 · heads:x mlp:y"]

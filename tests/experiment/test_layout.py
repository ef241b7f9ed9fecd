"""The layout agrees with JAX: the same shards on the same devices, for every mesh, shape and spec
that JAX takes.
"""

import json
import math
import sys

import jax
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P

from spmd_core.base import RequestError
from spmd_core.experiment import (
    layout,
    layout_json,
    layout_of,
    parse_experiment,
    read_element,
    sharded_further,
)
from spmd_core.terms.experiments import layout_headline

pytestmark = [pytest.mark.slow, pytest.mark.newer]

MESH_SHAPES = [
    sizes for rank in (1, 2, 3) for sizes in np.ndindex(*[9] * rank) if 1 <= math.prod(sizes) <= 8
]
SHARD_SIZES = st.integers(1, 3)


@st.composite
def placements(draw):
    """A mesh of up to 3 axes over at most 8 devices, a spec that cuts 1 to 5 dims with any axes in
    any order, and a shape that divides.
    """
    mesh = tuple(zip("xyz", draw(st.sampled_from(MESH_SHAPES)), strict=False))
    rank = draw(st.integers(1, 5))
    spec = [[] for _ in range(rank)]
    for axis in draw(st.permutations([name for name, _ in mesh])):
        if (dim := draw(st.integers(0, rank))) < rank:
            spec[dim].append(axis)
    parts = [math.prod(dict(mesh)[axis] for axis in axes) for axes in spec]
    shape = tuple(count * draw(SHARD_SIZES) for count in parts)
    return mesh, shape, tuple(tuple(axes) for axes in spec), draw(st.permutations(range(8)))


def jax_sharding(mesh, spec, order=range(8)):
    """The NamedSharding, and device -> position in the mesh's device order."""
    count = math.prod(size for _, size in mesh)
    devices = np.array(jax.devices())[list(order)][:count].reshape([size for _, size in mesh])
    jax_mesh = Mesh(
        devices, tuple(name for name, _ in mesh), axis_types=(AxisType.Auto,) * len(mesh)
    )
    return NamedSharding(jax_mesh, P(*spec)), {
        device: position for position, device in enumerate(devices.flat)
    }


def ranges(index, shape):
    return [[*bounds.indices(size)[:2]] for bounds, size in zip(index, shape, strict=True)]


def test_eight_devices_are_simulated():
    assert [device.platform for device in jax.devices()] == ["cpu"] * 8


@settings(max_examples=400, deadline=None)
@given(placements())
def test_indices_are_those_of_devices_indices_map(placement):
    mesh, shape, spec, order = placement
    sharding, position = jax_sharding(mesh, spec, order)
    found = layout(mesh, shape, spec)
    theirs = {
        position[device]: ranges(index, shape)
        for device, index in sharding.devices_indices_map(shape).items()
    }
    assert dict(enumerate(found.ranges())) == theirs
    assert np.stack([found.starts, found.stops], axis=-1).tolist() == found.ranges()
    assert found.shard_shape == sharding.shard_shape(shape)


@settings(max_examples=60, deadline=None)
@given(placements())
def test_a_real_array_lies_where_the_layout_says(placement):
    mesh, shape, spec, order = placement
    sharding, position = jax_sharding(mesh, spec, order)
    values = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    array = jax.device_put(values, sharding)
    found = layout(mesh, shape, spec)
    held = {position[shard.device]: shard for shard in array.addressable_shards}
    assert sorted(held) == list(range(found.device_count))
    for device, shard in held.items():
        mine = tuple(
            slice(*bounds) for bounds in zip(found.starts[device], found.stops[device], strict=True)
        )
        assert np.array_equal(np.asarray(shard.data), values[mine])
        assert shard.data.nbytes == found.shard_bytes("float32")
        assert list(found.groups[found.shard_of[device]]).index(device) == shard.replica_id


@settings(max_examples=200, deadline=None)
@given(placements())
def test_groups_are_the_devices_that_hold_the_same(placement):
    mesh, shape, spec, _ = placement
    found = layout(mesh, shape, spec)
    same: dict[tuple, list[int]] = {}
    for device, start in enumerate(found.starts.tolist()):
        same.setdefault(tuple(start), []).append(device)
    assert found.groups.tolist() == [same[start] for start in sorted(same)]
    assert all(device in found.groups[shard] for device, shard in enumerate(found.shard_of))
    assert found.replication == found.groups.shape[1]
    assert (
        found.held_bytes("bfloat16")
        == found.array_bytes("bfloat16") * found.replication
        == 2 * math.prod(shape) * found.replication
    )


def test_the_major_axis_of_a_dim_comes_first():
    mesh = (("x", 2), ("y", 4))
    assert layout(mesh, (8,), (("x", "y"),)).starts[:, 0].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert layout(mesh, (8,), (("y", "x"),)).starts[:, 0].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]


def test_coordinates_are_row_major_over_the_mesh():
    found = layout((("x", 2), ("y", 3)), (6,), (("y",),))
    assert found.coordinates.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert found.groups.tolist() == [[0, 3], [1, 4], [2, 5]]
    assert found.replicated_axes == ("x",)


def test_a_scalar_is_whole_on_every_device():
    found = layout((("x", 8),), (), ())
    assert (found.starts.shape, found.shard_shape, found.replication, found.shard_of.tolist()) == (
        (8, 0),
        (),
        8,
        [0] * 8,
    )
    assert found.ranges() == [[]] * 8
    assert found.shard_bytes("float32") == 4


def test_terabytes_are_arithmetic():
    found = layout((("x", 64), ("y", 64)), (2**40, 2**40, 1), (("x", "y"), (), ()))
    assert found.shard_shape == (2**28, 2**40, 1)
    assert found.array_bytes("float32") == 2**82
    assert found.stops[-1].tolist() == [2**40, 2**40, 1]


@pytest.mark.parametrize(
    ("shape", "spec", "message"),
    [
        (
            (30,),
            (("y",),),
            "d0=30 does not divide over mesh axis y=4: use d0=28 or 32, y=3, or leave d0 unsharded",
        ),
        (
            (12, 4),
            (("x", "y"), ()),
            "d0=12 does not divide over mesh axes x=2 and y=4: use d0=8 or 16, or leave d0 unsharded",
        ),
        ((8,), (("z",),), "mesh axis 'z' is not in the mesh: use x, y, or leave the dim unsharded"),
        (
            (8, 8),
            (("x",), ("x",)),
            "mesh axis 'x' shards both d0 and d1 of array: shard one of them over another axis, or override array",
        ),
        (
            (8,),
            (("x", "x"),),
            "mesh axis 'x' is used twice on dim d0 of array: name each axis once",
        ),
        (
            (8, 8),
            (("x",),),
            "spec of array with 1 entry does not fit its rank 2: give one entry for each of d0, d1",
        ),
    ],
)
def test_what_jax_refuses_is_refused_in_a_sentence(shape, spec, message):
    mesh = (("x", 2), ("y", 4))
    with pytest.raises(RequestError) as refusal:
        layout(mesh, shape, spec)
    assert str(refusal.value) == message
    if len(spec) == len(shape):  # JAX fills a short spec with None; here every dim is said
        with pytest.raises(Exception, match=r"divi|not found|duplicate"):
            jax_sharding(mesh, spec)[0].shard_shape(shape)


ARRAY = {
    "workload": "array",
    "mesh": {"x": 2, "y": 4},
    "dims": {"d0": 4, "d1": 8},
    "sharding": {"d0": "x", "d1": ["y"]},
}


def test_json_form_of_the_tutorials_array():
    data = layout_json(parse_experiment(ARRAY))
    assert data["shards"][0] == {"device": 0, "position": 0, "index": [[0, 2], [0, 2]]}
    assert data["shards"][7] == {"device": 7, "position": 7, "index": [[2, 4], [6, 8]]}
    assert {name: data[name] for name in data if name not in ("shards", "groups")} == {
        "mesh": [["x", 2], ["y", 4]],
        "shape": [4, 8],
        "spec": ["x", "y"],
        "dtype": "float32",
        "memory": "device",
        "devices": 8,
        "shard_shape": [2, 2],
        "shard_count": 8,
        "replication": 1,
        "replicated_axes": [],
        "bytes_per_device": 16,
        "bytes_array": 128,
        "bytes_held": 128,
    }
    assert data["groups"] == [[device] for device in range(8)]
    assert json.loads(json.dumps(data)) == data


@pytest.mark.parametrize(
    ("target", "mesh", "options", "numbers"),
    [
        ("tpu:v5e:2x4", {"x": 8}, {}, [0, 1, 2, 3, 7, 6, 5, 4]),  # a ring, by mesh_utils
        ("tpu:v5e:2x4", {"x": 8}, {"device_order": "plain"}, [0, 1, 2, 3, 4, 5, 6, 7]),
        # hosts of 2 x 2
        (
            "tpu:v5e:4x4",
            {"x": 16},
            {"device_order": "plain"},
            [0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15],
        ),
        (
            "tpu:v5e:2x4*2",
            {"d": 2, "x": 8},
            {},
            [100000 + i for i in (0, 1, 2, 3, 7, 6, 5, 4)]
            + [200000 + i for i in (0, 1, 2, 3, 7, 6, 5, 4)],
        ),
        ("tpu:v5e:4x4", {"x": 8}, {}, [None] * 8),  # fills half of it: only mesh_utils can say
        ("local", {"x": 4}, {}, [None] * 4),
    ],
)
def test_devices_have_the_numbers_that_jax_gives_them(target, mesh, options, numbers):
    data = layout_json(
        parse_experiment(
            {
                "workload": "array",
                "target": target,
                "mesh": mesh,
                "dims": {"d0": 16},
                "sharding": {"d0": "x"},
                "options": options,
            }
        )
    )
    assert [shard["device"] for shard in data["shards"]] == numbers
    assert [shard["position"] for shard in data["shards"]] == list(range(len(numbers)))


def test_json_form_of_a_replicated_array():
    data = layout_json(
        parse_experiment(
            ARRAY
            | {"sharding": {"d1": "y"}, "memory": {"array": "pinned_host"}, "dtype": "bfloat16"}
        )
    )
    assert (data["spec"], data["replication"], data["replicated_axes"], data["memory"]) == (
        [None, "y"],
        2,
        ["x"],
        "pinned_host",
    )
    assert data["groups"] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert (data["bytes_per_device"], data["bytes_array"], data["bytes_held"]) == (16, 64, 128)


def test_layouts_of_any_array_of_an_experiment():
    experiment = parse_experiment(
        {
            "workload": "layer",
            "mesh": {"x": 8},
            "dims": {"in": 32, "out": 4},
            "sharding": {"in": "x"},
        }
    )
    assert layout_of(experiment, "weights").shard_shape == (4, 4)
    assert layout_of(experiment, "bias").replication == 8


@pytest.mark.parametrize(
    ("sharding", "sentence"),
    [
        (
            {"d0": "x", "d1": "y"},
            "8 devices each hold 2 × 2 of 4 × 8: 16 B of 128 B; nothing is replicated",
        ),
        ({"d1": "y"}, "8 devices each hold 4 × 2 of 4 × 8: 32 B of 128 B; replicated 2× over x"),
        ({}, "8 devices each hold all of 4 × 8: 128 B; fully replicated"),
    ],
)
def test_headline(sharding, sentence):
    assert (
        layout_headline(layout_of(parse_experiment(ARRAY | {"sharding": sharding})), "float32")
        == sentence
    )


def test_headline_of_one_device():
    experiment = parse_experiment(ARRAY | {"mesh": {"x": 1}, "sharding": {"d0": "x"}})
    assert layout_headline(layout_of(experiment), "float32") == "1 device holds all of 4 × 8: 128 B"


def test_65536_devices_do_not_cost_python_objects():
    mesh, shape, spec = (
        (("a", 64), ("b", 32), ("c", 32)),
        (64, 2048, 128, 128),
        (("c",), ("a", "b"), (), ()),
    )
    lines = 0

    def count(frame, event, argument):
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        found = layout(mesh, shape, spec)
        shapes = (found.starts.shape, found.stops.shape, found.groups.shape)
    finally:
        sys.settrace(before)
    assert lines < 5000, "a loop over devices"
    assert shapes == ((65536, 4), (65536, 4), (65536, 1))


def test_the_devices_that_hold_an_element_are_named():
    grid = layout((("x", 2), ("y", 4)), (8, 16), (("x",), ("y",)))
    assert grid.holders(read_element("[5, 2]", grid.shape)).tolist() == [4]
    assert grid.holders(read_element("-1 -1", grid.shape)).tolist() == [7]
    rows = layout((("x", 2), ("y", 4)), (8, 16), (("x",), ()))
    assert rows.holders((5, 2)).tolist() == [4, 5, 6, 7]
    for element in np.ndindex(8, 16):
        held = [
            bool((row <= element).all() and (element < stop).all())
            for row, stop in zip(grid.starts, grid.stops, strict=True)
        ]
        assert grid.holders(element).tolist() == np.flatnonzero(held).tolist()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a, b", "element 'a, b' is not an index: write for example 7, 15"),
        ("1", r"element \[1\] of 1 dims is not of rank 2: write 2 numbers"),
        ("8, 0", "index 8 of d0 is outside an array of size 8: use 0 to 7"),
        ("0, -17", "index -17 of d1 is outside an array of size 16: use 0 to 15"),
        ("9" * 30 + ", 1", "is not an index"),
    ],
)
def test_an_element_that_is_none_is_refused(text, said):
    with pytest.raises(RequestError, match=said):
        read_element(text, (8, 16))


@pytest.mark.parametrize(
    ("shape", "spec", "further"),
    [
        ((8, 16), ((), ("y",)), (("x",), ("y",))),
        ((8, 16), (("y",), ()), (("y",), ("x",))),
        ((8, 16), ((), ()), (("y",), ("x",))),
        ((8, 16), (("x",), ("y",)), None),
        ((3, 5), ((), ()), None),
        ((2, 4), (("x",), ()), (("x",), ("y",))),
        ((), (), None),
    ],
)
def test_a_replicated_axis_goes_over_the_longest_dim_that_it_divides(shape, spec, further):
    assert sharded_further(layout((("x", 2), ("y", 4)), shape, spec)) == further

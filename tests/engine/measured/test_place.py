import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

from spmd_core.engine.measured.place import array_report, values_json


def grid(order=range(8), axes=("x", "y", "z")):
    return Mesh(
        np.array([jax.devices()[position] for position in order]).reshape(2, 2, 2),
        axes,
        axis_types=(AxisType.Auto,) * 3,
    )


def test_shards_have_their_device_and_its_position_in_the_mesh():
    mesh = grid(order=(7, 6, 5, 4, 3, 2, 1, 0))
    array = jax.device_put(np.arange(8.0), NamedSharding(mesh, P(("x", "y", "z"))))
    report = array_report(array, list(mesh.devices.flat), mesh)
    assert [(shard.device, shard.position, shard.index) for shard in report.shards] == [
        (7 - position, position, ((position, position + 1),)) for position in range(8)
    ]
    assert report.spec == (["x", "y", "z"],)
    assert report.values == tuple(map(float, range(8)))


def test_an_array_on_one_device():
    device = jax.devices()[3]
    report = array_report(
        jax.device_put(jnp.int32(7), SingleDeviceSharding(device)), [device], None
    )
    assert (report.shape, report.dtype, report.spec, report.values) == ((), "int32", None, (7,))
    assert [(shard.device, shard.position, shard.index) for shard in report.shards] == [(3, 0, ())]


@settings(max_examples=15)
@given(
    st.permutations(range(8)),
    st.lists(st.sampled_from("xyz"), unique=True),
    st.integers(1, 3),
    st.data(),
)
def test_a_sharding_without_names_is_given_the_spec_that_made_it(order, axes, rank, data):
    """The compiler hands back a sharding that knows no axes: its spec is found from who holds what."""
    mesh = grid(order)
    spec = [[] for _ in range(rank)]
    for axis in axes:
        spec[data.draw(st.integers(0, rank - 1))].append(axis)
    named = NamedSharding(mesh, P(*(tuple(entry) or None for entry in spec)))
    ones = np.ones((8,) * rank, np.float32)
    (bare,), _ = (
        jax.jit(lambda array: jax.lax.with_sharding_constraint(array, named))
        .lower(ones)
        .compile()
        .input_shardings
    )
    assert not isinstance(bare, NamedSharding)
    array = jax.device_put(ones, bare)
    report = array_report(array, list(mesh.devices.flat), mesh)
    assert report.spec == tuple(
        None if not entry else entry[0] if len(entry) == 1 else entry for entry in spec
    )


def test_large_arrays_are_reported_without_values_and_empty_ones_too():
    mesh = grid()
    whole = NamedSharding(mesh, P())
    assert (
        array_report(jax.device_put(np.zeros(257), whole), list(mesh.devices.flat), mesh).values
        is None
    )
    assert (
        len(
            array_report(jax.device_put(np.zeros(256), whole), list(mesh.devices.flat), mesh).values
        )
        == 256
    )


@pytest.mark.parametrize(
    ("array", "values"),
    [
        (np.array([[1, 2], [3, 4]], np.int32), (1, 2, 3, 4)),
        (np.array([True, False]), (1, 0)),
        # 0.1, not 0.10000000149011612
        (np.array([0.1, np.nan, np.inf, -np.inf], np.float32), (0.1, "nan", "inf", "-inf")),
        (np.array([0.5, 1.5], jnp.bfloat16), (0.5, 1.5)),
    ],
)
def test_values_survive_json(array, values):
    assert values_json(array) == values

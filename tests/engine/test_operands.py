import gc

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P, SingleDeviceSharding

from spmd_core.engine.operands import Operands


def mesh(kind=AxisType.Auto):
    return jax.make_mesh((8,), ("x",), axis_types=(kind,))


def addresses(array):
    return [shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards]


@pytest.fixture
def operands():
    # not aligned: JAX places aligned NumPy memory on the CPU without a copy
    return Operands({"w": np.arange(1025.0, dtype=np.float32)[1:]})


def test_what_is_placed_alike_is_shared_whatever_the_sharding_is_called(operands):
    first = operands.place("w", NamedSharding(mesh(), P("x")))
    compiled = (
        jax.jit(lambda w: jax.lax.with_sharding_constraint(w, NamedSharding(mesh(), P("x"))))
        .lower(operands["w"])
        .compile()
    )
    for sharding in (NamedSharding(mesh(AxisType.Explicit), P("x")), *compiled.input_shardings[0]):
        again = operands.place("w", sharding)
        assert addresses(again) == addresses(first)
        assert again.sharding == sharding
        assert np.array_equal(again, operands["w"])


def test_what_is_placed_otherwise_has_memory_of_its_own(operands):
    device = jax.devices()[0]
    shardings = [
        NamedSharding(mesh(), P("x")),
        NamedSharding(mesh(), P()),
        NamedSharding(mesh(), P("x"), memory_kind="pinned_host"),
        SingleDeviceSharding(device),
    ]
    placed = [operands.place("w", sharding) for sharding in shardings]
    assert [array.sharding for array in placed] == shardings
    assert len({addresses(array)[0] for array in placed}) == 4


def test_unsharded_means_uncommitted(operands):
    assert not operands.place("w", None).committed


def test_what_no_strategy_uses_any_more_is_let_go(operands):
    placed = operands.place("w", NamedSharding(mesh(), P("x")))
    before = len(jax.live_arrays())
    del placed
    gc.collect()
    assert len(jax.live_arrays()) < before

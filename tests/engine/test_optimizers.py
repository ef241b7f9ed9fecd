"""One step of each optimizer over a mesh against one device, and against its formula in NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from spmd_core.experiment import PLAN_FIELDS, parse_plan
from spmd_core.script.decoder import configuration
from spmd_core.script.programs.decoder import Model
from spmd_core.script.programs.decoder_config import Decoder
from spmd_core.script.programs.decoder_step import OPTIMIZERS, abstract_arguments, make_train_step
from spmd_core.time import estimate_memory

pytestmark = pytest.mark.this_python

SIZES = {
    "layers": 2,
    "embed": 32,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "mlp": 64,
    "vocab": 64,
}
GOOD = {"target": "tpu:v5e:4x4", "model": "scaled:1", "mesh": {"fsdp": 16}, "batch_per_device": 2}


def stepped(name, sizes):
    """(state before, state after) of a step over a mesh, every leaf whole."""
    moments = OPTIMIZERS[name][1]
    config = Decoder(**SIZES, optimizer=name, moment_dtypes=("float32",) * len(moments))
    devices = jax.devices()[: int(np.prod(list(sizes.values())))]
    mesh = jax.make_mesh(
        tuple(sizes.values()),
        tuple(sizes),
        axis_types=(AxisType.Auto,) * len(sizes),
        devices=devices,
    )
    state, tokens = abstract_arguments(config, mesh, batch=8, length=16)
    numbers = np.random.default_rng(0)

    def drawn(leaf):
        if leaf.dtype == jnp.int32:
            return jnp.zeros(leaf.shape, jnp.int32)
        return jnp.asarray(np.abs(numbers.normal(size=leaf.shape)) / 8, leaf.dtype)

    before = jax.tree.map(drawn, state)
    batch = {
        name: jnp.asarray(numbers.integers(0, 64, leaf.shape), jnp.int32)
        for name, leaf in tokens.items()
    } | {"segments": jnp.ones((8, 16), jnp.int32)}
    placed = jax.tree.map(lambda x, leaf: jax.device_put(x, leaf.sharding), before, state)
    after, _ = jax.jit(make_train_step(Model(config, mesh, kernel=False)))(placed, batch)
    return jax.tree.map(np.array, before), jax.tree.map(np.array, after)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_over_a_mesh_is_that_of_one_device(name):
    before, one = stepped(name, {"fsdp": 1})
    _, eight = stepped(name, {"fsdp": 4, "tensor": 2})
    assert set(one) == {"parameters", "step", *OPTIMIZERS[name][1]}
    # gradients in bfloat16 are summed in another order
    for part in OPTIMIZERS[name][1]:
        for expected, found in zip(*map(jax.tree.leaves, (one[part], eight[part])), strict=True):
            assert np.linalg.norm(found - expected) < 0.02 * np.linalg.norm(expected)
    moved = [
        np.abs(new - old).max()
        for old, new in zip(
            jax.tree.leaves(before["parameters"]), jax.tree.leaves(one["parameters"]), strict=True
        )
    ]
    assert min(moved) > 0


def test_one_step_by_hand():
    """g 2, p 10, mean 1, square 4, the first step."""
    adamw, momentum, lion = (OPTIMIZERS[name][0] for name in ("adamw", "momentum", "lion"))
    change, (mean, square) = adamw(2.0, 10.0, 1, 1.0, 4.0)
    assert (mean, square) == pytest.approx((1.1, 4.0))
    assert float(change) == pytest.approx(11 / np.sqrt(80) + 1, rel=1e-6)
    assert momentum(2.0, 10.0, 1, 1.0) == (pytest.approx(2.9), (pytest.approx(2.9),))
    change, (mean,) = lion(2.0, 10.0, 1, -1.0)
    assert (float(change), mean) == pytest.approx((-1 + 1.0, -0.97))


def test_the_table_of_fields_has_the_optimizers_of_the_program_and_memory_follows_the_moments():
    assert PLAN_FIELDS["optimizer"].choices == tuple(OPTIMIZERS)
    plans = {name: parse_plan(GOOD | {"optimizer": name}) for name in OPTIMIZERS}
    state = {
        name: estimate_memory(plan).parts["parameters and optimizer"]
        for name, plan in plans.items()
    }
    assert state["lion"] == state["momentum"] == pytest.approx(state["adamw"] * 2 / 3, abs=2)
    assert configuration(plans["lion"])["moment_dtypes"] == ("float32",)
    assert all(len(OPTIMIZERS[name][1]) == len(plan.moment_dtypes) for name, plan in plans.items())

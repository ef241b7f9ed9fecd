"""Gradients of microbatches, added up, against those of the whole batch on one device."""

from functools import cache

import jax
import numpy as np
import pytest
from jax.sharding import AxisType

from spmd_core.script.programs.decoder import Model
from spmd_core.script.programs.decoder_config import Decoder, parameter_dims
from spmd_core.script.programs.decoder_step import value_and_gradients
from tests.cover import whole

pytestmark = pytest.mark.this_python

SIZES = {"layers": 2, "embed": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "mlp": 64, "vocab": 64}
BATCH, LENGTH = 8, 16


@cache
def of(*mesh_axes, **choices):
    """Loss and gradients over a mesh, every leaf whole."""
    config = Decoder(**SIZES, **choices)
    names, sizes = zip(*mesh_axes, strict=True)
    count = int(np.prod(sizes))
    mesh = jax.make_mesh(
        sizes, names, axis_types=(AxisType.Auto,) * len(names), devices=jax.devices()[:count]
    )
    numbers = np.random.default_rng(0)
    parameters = jax.tree.map(
        lambda dims: np.float32(numbers.normal(size=[size for _, size in dims]) / 8),
        parameter_dims(config),
        is_leaf=lambda x: isinstance(x, tuple),
    )
    shape = (BATCH, LENGTH)
    batch = {
        "tokens": np.int32(numbers.integers(0, 64, shape)),
        "targets": np.int32(numbers.integers(0, 64, shape)),
        "positions": np.tile(np.arange(LENGTH, dtype=np.int32), (BATCH, 1)),
        "segments": np.ones(shape, np.int32),
    }
    model = Model(config, mesh, kernel=False)
    return jax.jit(lambda *given: value_and_gradients(model, *given))(parameters, batch)


@pytest.mark.parametrize("count", [pytest.param(2, marks=whole), 4])
def test_microbatches_over_a_mesh_add_up_to_the_batch_on_one_device(count):
    whole, parts = of(("fsdp", 1)), of(("fsdp", 2), ("tensor", 4), microbatches=count)
    assert float(parts[0]) == pytest.approx(float(whole[0]), rel=1e-3)
    for expected, found in zip(*map(jax.tree.leaves, (whole[1], parts[1])), strict=True):
        # the model computes in bfloat16: a part of a batch is rounded as a part
        error = np.linalg.norm(np.array(found) - expected) / np.linalg.norm(expected)
        assert error < 0.02

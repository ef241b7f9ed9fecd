"""A step whose optimizer is sharded over `data`, too, against the step whose optimizer is not."""

import re
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType

from spmd_core.script.programs.decoder import Model
from spmd_core.script.programs.decoder_config import Decoder
from spmd_core.script.programs.decoder_step import abstract_arguments, make_train_step
from tests.cover import whole

pytestmark = pytest.mark.this_python

SIZES = {"layers": 2, "embed": 32, "heads": 4, "kv_heads": 2, "head_dim": 8, "mlp": 64, "vocab": 64}
BATCH, LENGTH = 16, 16
DATA = (("data", 8),)
ADAMW = {"optimizer": "adamw", "microbatches": 1, "moment_dtypes": ("float32",) * 2}
MESHES = (
    pytest.param(DATA, marks=whole),
    pytest.param((("data", 4), ("tensor", 2)), marks=whole),
    (("data", 2), ("fsdp", 2), ("tensor", 2)),
)


@cache
def stepped(mesh_axes, **choices):
    """(changes of the state by a step, metrics, compiled step, bytes of it on a device)."""
    config = Decoder(**SIZES, **choices)
    names, sizes = zip(*mesh_axes, strict=True)
    mesh = jax.make_mesh(
        sizes, names, axis_types=(AxisType.Auto,) * len(names), devices=jax.devices()[:8]
    )
    structs, rows = abstract_arguments(config, mesh, BATCH, LENGTH)
    numbers = np.random.default_rng(0)

    def drawn(path, leaf):
        scale = (path[0].key == "parameters") / 8  # moments begin at 0
        given = numbers.normal(size=leaf.shape) * scale
        return jax.device_put(given.astype(leaf.dtype), leaf.sharding)

    state = jax.tree.map_with_path(drawn, structs)
    held = sum(leaf.addressable_shards[0].data.nbytes for leaf in jax.tree.leaves(state))
    batch = {
        "tokens": jnp.asarray(numbers.integers(0, 64, (BATCH, LENGTH)), jnp.int32),
        "targets": jnp.asarray(numbers.integers(0, 64, (BATCH, LENGTH)), jnp.int32),
        "positions": jnp.tile(jnp.arange(LENGTH), (BATCH, 1)),
        "segments": jnp.ones((BATCH, LENGTH), jnp.int32),
    }
    batch = {name: jax.device_put(each, rows[name].sharding) for name, each in batch.items()}
    step = make_train_step(Model(config, mesh, kernel=False))
    shardings = jax.tree.map(lambda leaf: leaf.sharding, structs)
    compiled = jax.jit(step, out_shardings=(shardings, None)).lower(state, batch).compile()
    after, metrics = compiled(state, batch)
    changes = jax.tree.map(lambda new, old: np.asarray(new) - np.asarray(old), after, state)
    return changes, metrics, compiled.as_text(), held


@pytest.mark.parametrize(
    "optimizer", ["adamw", *(pytest.param(each, marks=whole) for each in ("adafactor", "lion"))]
)
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("count", [1, pytest.param(2, marks=whole)])
def test_a_sharded_optimizer_makes_the_same_step(mesh, optimizer, count):
    moments = ("float32",) * (1 if optimizer == "lion" else 2)
    choices = ADAMW | {"optimizer": optimizer, "microbatches": count, "moment_dtypes": moments}
    plain, sharded = (
        stepped(mesh, **choices, shard_optimizer_over_data=is_sharded)
        for is_sharded in (False, True)
    )
    for name, value in plain[1].items():
        assert float(sharded[1][name]) == pytest.approx(float(value), rel=1e-3), name
    pairs = zip(*map(jax.tree.leaves, (plain[0], sharded[0])), strict=True)
    for expected, found in pairs:
        # sums in another order: first changes are signs, about, of which a few differ
        assert np.linalg.norm(found - expected) <= 0.1 * np.linalg.norm(expected)
    # norms are not, nor are Adafactor's moments of the other side
    assert 0.7 * dict(mesh)["data"] < plain[3] / sharded[3] <= dict(mesh)["data"]


def test_its_weights_are_gathered_outside_of_every_loop():
    text = stepped(DATA, **ADAMW, shard_optimizer_over_data=True)[2]
    entry = text[text.index("ENTRY") :]
    everywhere = re.findall(r" all-gather(?:-start)?\(", text)
    assert len(everywhere) == len(re.findall(r" all-gather(?:-start)?\(", entry)) > 0
    assert "all-gather" not in stepped(DATA, **ADAMW, shard_optimizer_over_data=False)[2]

"""Weights that a step gathers in more bits than asked for: planted, and read off what JAX compiles."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import AxisType, PartitionSpec as P

from spmd_core.program import parse_module, read_collectives
from spmd_core.time.cost.gathers import wide_gathers
from spmd_core.workloads import parse_plan

LAYERS, SHARDS = 4, 4
NARROW = jnp.int8  # CPUs gather float8 in other types
PLAN = {
    "target": "tpu:v5e:2x2",
    "model": "scaled:1",
    "mesh": {"fsdp": SHARDS},
    "batch_per_device": 1,
    "matmul_dtype": "int8",
    "scales": "static",
}


def early(weight):
    """Cast, then gathered."""
    return jax.lax.all_gather(weight.astype(NARROW), "fsdp", axis=0, tiled=True)


def late(weight):
    """Gathered, then cast."""
    whole = jax.lax.all_gather(weight, "fsdp", axis=0, tiled=True)
    return jax.lax.optimization_barrier(whole).astype(NARROW)


def ring(cast):
    """Shards that pass from device to device beside parts of the matmul."""

    def gather(weight):
        shard, parts = weight.astype(NARROW) if cast else weight, []
        for _ in range(SHARDS):
            parts.append(shard.astype(NARROW))
            pairs = [(i, (i + 1) % SHARDS) for i in range(SHARDS)]
            shard = jax.lax.ppermute(shard, "fsdp", pairs)
        return jnp.concatenate(parts)

    return gather


def compiled(gather):
    auto = {"axis_types": (AxisType.Auto,)}
    mesh = jax.make_mesh((SHARDS,), ("fsdp",), devices=jax.devices()[:SHARDS], **auto)

    def step(x, weights):
        def layer(x, weight):
            with jax.named_scope("up"):
                return x @ gather(weight).astype(x.dtype), None

        return jax.lax.scan(layer, x, weights)[0]

    specs = P("fsdp"), P(None, "fsdp")
    mapped = jax.shard_map(step, mesh=mesh, in_specs=specs, out_specs=P("fsdp"), check_vma=False)
    shapes = ((16, 256), (LAYERS, 256, 256))
    args = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes]
    return parse_module(jax.jit(mapped).lower(*args).compile().as_text())


def findings(gather, **more):
    module = compiled(gather)
    listed = read_collectives(module, (("fsdp", SHARDS),))
    assert any(each.times == LAYERS for each in listed)  # there is something to judge
    return wide_gathers(module, listed, parse_plan(PLAN | more))


def test_a_cast_after_the_gather_is_named_with_its_matmul():
    (fact,) = findings(late)
    assert fact.values == {"asked": "int8", "share": 1.0, "names": "up"}


def test_a_cast_before_the_gather_is_as_asked():
    assert findings(early) == ()


@pytest.mark.parametrize("gather", [early, late])
def test_a_plan_that_gathers_in_bfloat16_asks_for_nothing(gather):
    assert findings(gather, gathered_dtype="bfloat16") == ()


def test_permutes_of_shards_are_judged_as_gathers():
    module = compiled(ring(cast=False))
    rings = [
        each.model_copy(update={"asked": "all-gather"})
        for each in read_collectives(module, (("fsdp", SHARDS),))
        if each.kind == "collective-permute"
    ]
    assert rings and wide_gathers(module, rings, parse_plan(PLAN))[0].values["share"] == 1.0
    module = compiled(ring(cast=True))
    narrow = [
        each.model_copy(update={"asked": "all-gather"})
        for each in read_collectives(module, (("fsdp", SHARDS),))
    ]
    assert wide_gathers(module, narrow, parse_plan(PLAN)) == ()

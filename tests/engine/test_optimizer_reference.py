"""One step of an optimizer over eight devices against one that `shard_map` writes out by hand: values,
bytes that are sent, FLOPs.
"""

import functools
from collections import Counter

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from spmd_core.program import parse_module, read_collectives
from spmd_core.script.programs.decoder import Model
from spmd_core.script.programs.decoder_config import Decoder
from spmd_core.script.programs.decoder_step import (
    DECAY,
    FIRST,
    LION_SECOND,
    MUON_FIRST,
    OPTIMIZERS,
    muon,
    orthogonal,
)

pytestmark = pytest.mark.this_python

DIMS = (("layers", 8), ("embed", 128), ("mlp", 256))
SHAPE = tuple(size for _, size in DIMS)
SHARDED, ROWS, COLUMNS = P(None, "fsdp"), P(None, "fsdp"), P()


def lion_by_hand(g, p, step, mean):
    change = jnp.sign(FIRST * mean + (1 - FIRST) * g) + DECAY * p
    return change, LION_SECOND * mean + (1 - LION_SECOND) * g


def adafactor_by_hand(g, p, step, rows, columns):
    kept, square = 1 - step ** jnp.float32(-0.8), g * g + 1e-30
    rows = kept * rows + (1 - kept) * jnp.sum(square, -1) / SHAPE[2]
    summed = jax.lax.psum(jnp.sum(square, -2), "fsdp")
    columns = kept * columns + (1 - kept) * summed / SHAPE[1]
    share = rows / (jax.lax.psum(jnp.sum(rows, -1, keepdims=True), "fsdp") / SHAPE[1])
    change = g * jax.lax.rsqrt(share[..., None] * columns[..., None, :])
    mean = jax.lax.psum(jnp.sum(change * change), "fsdp") / np.prod(SHAPE)
    return change / jnp.maximum(1.0, jnp.sqrt(mean)) + DECAY * p, rows, columns


def muon_by_hand(g, p, step, mean):
    mean = MUON_FIRST * mean + g
    ahead = (g + MUON_FIRST * mean).astype(jnp.bfloat16)
    whole = jax.lax.all_to_all(ahead, "fsdp", 0, 1, tiled=True)  # a layer for a shard of each
    made = orthogonal(whole) * (0.2 * max(SHAPE[1:]) ** 0.5)
    change = jax.lax.all_to_all(made, "fsdp", 1, 0, tiled=True)
    return change.astype(jnp.float32) + DECAY * p, mean


# name -> (the step by hand, the specs of its moments)
BY_HAND = {
    "lion": (lion_by_hand, (SHARDED,)),
    "adafactor": (adafactor_by_hand, (ROWS, COLUMNS)),
    "muon": (muon_by_hand, (SHARDED,)),
}


def answer(step, arguments):
    """(results, bytes by kind, FLOPs) of a compiled step."""
    compiled = jax.jit(step).lower(*arguments).compile()
    sent = Counter[str]()
    for each in read_collectives(parse_module(compiled.as_text()), (("fsdp", 8),)):
        sent[each.kind] += each.bytes_total
    return compiled(*arguments), dict(sent), compiled.cost_analysis()["flops"]


@pytest.mark.parametrize("name", BY_HAND)
def test_an_update_is_that_of_a_program_written_for_each_device(name):
    mesh = jax.make_mesh((8,), ("fsdp",), axis_types=(AxisType.Auto,))
    by_hand, specs = BY_HAND[name]
    numbers = np.random.default_rng(0)
    g, p, first = (numbers.normal(size=SHAPE).astype(np.float32) for _ in range(3))
    second = {"adafactor": (np.mean(first**2, -1), np.mean(first**2, -2))}
    values = (g, p, np.float32(3), *second.get(name, (first,)))
    placed_by = (SHARDED, SHARDED, P(), *specs)
    arguments = [
        jax.device_put(x, NamedSharding(mesh, spec))
        for x, spec in zip(values, placed_by, strict=True)
    ]
    rule = OPTIMIZERS[name][0]
    if rule is muon:
        sizes = dict(DIMS) | {"heads": 1, "kv_heads": 1, "head_dim": 128, "vocab": 64}
        config = Decoder(**sizes, optimizer=name)
        rule = functools.partial(muon, Model(config, mesh, kernel=False), DIMS)

    def program(g, p, step, *moments):
        more = (jnp.zeros(()),) * (name == "muon")
        change, new = rule(g, p, step, *moments, *more)
        kept = (change, *new[: len(specs)])
        return [
            jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))
            for x, spec in zip(kept, (SHARDED, *specs), strict=True)
        ]

    apart = jax.shard_map(by_hand, mesh=mesh, in_specs=placed_by, out_specs=(SHARDED, *specs))
    (found, sent, flops), (expected, sent_by_hand, flops_by_hand) = (
        answer(each, arguments) for each in (program, apart)
    )
    for one, other in zip(found, expected, strict=True):
        assert np.allclose(one, other, rtol=2e-2, atol=2e-2)
    assert sent == sent_by_hand and bool(sent) == (name != "lion")
    assert flops == pytest.approx(flops_by_hand, rel=0.01)

"""One step of Lion, Adafactor and Muon over eight simulated devices against the same by `shard_map`,
written by hand: values, bytes of each kind of collective, FLOPs.

    python -m bench.optimizers

Matrices are wide and tall; layers divide over the devices, which exchange them, or do not, so that
each is gathered in turn: there the compiler shares the products of Muon among the devices, with more
bytes and fewer FLOPs than by hand, where each device does all of them. tests/engine runs the others.
"""

import functools
import os
from collections import Counter
from collections.abc import Callable
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("JAX_NUM_CPU_DEVICES", "8")

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

from bench.figures import Asked, Figures, measure
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

# Muon multiplies in bfloat16: sums in another order are off by a part of their norm
DEVICES, NEAR, FAR, FLOPS_OFF = 8, 2e-2, 5e-2, 0.01
SHARDED, ROWS, COLUMNS = P(None, "fsdp"), P(None, "fsdp"), P()
# layers, and the two sides of each one's matrix: wide, tall, square; fewer layers than devices
SHAPES = ((8, 128, 256), (8, 256, 128), (16, 128, 128))
FEW_LAYERS = ((4, 128, 256), (3, 256, 128))
Arrays = tuple[jax.Array, ...]


def lion_by_hand(shape: tuple[int, ...], g: Any, p: Any, step: Any, mean: Any) -> Arrays:
    """Returns the change of a shard, and its moment."""
    change = jnp.sign(FIRST * mean + (1 - FIRST) * g) + DECAY * p
    return change, LION_SECOND * mean + (1 - LION_SECOND) * g


def adafactor_by_hand(
    shape: tuple[int, ...], g: Any, p: Any, step: Any, rows: Any, columns: Any
) -> Arrays:
    """The same, with the moments of its rows and of all columns."""
    kept, square = 1 - step ** jnp.float32(-0.8), g * g + 1e-30
    rows = kept * rows + (1 - kept) * jnp.sum(square, -1) / shape[2]
    summed = jax.lax.psum(jnp.sum(square, -2), "fsdp")
    columns = kept * columns + (1 - kept) * summed / shape[1]
    share = rows / (jax.lax.psum(jnp.sum(rows, -1, keepdims=True), "fsdp") / shape[1])
    change = g * jax.lax.rsqrt(share[..., None] * columns[..., None, :])
    mean = jax.lax.psum(jnp.sum(change * change), "fsdp") / np.prod(shape)
    return change / jnp.maximum(1.0, jnp.sqrt(mean)) + DECAY * p, rows, columns


def muon_by_hand(shape: tuple[int, ...], g: Any, p: Any, step: Any, mean: Any) -> Arrays:
    """The same, of layers that are exchanged for complete matrices, or of one gathered in turn."""
    mean = MUON_FIRST * mean + g
    ahead = (g + MUON_FIRST * mean).astype(jnp.bfloat16)
    scale = 0.2 * max(shape[1:]) ** 0.5

    def one(shard: jax.Array) -> jax.Array:
        made = orthogonal(jax.lax.all_gather(shard, "fsdp", tiled=True)) * scale
        begin = jax.lax.axis_index("fsdp") * shard.shape[0]
        return jax.lax.dynamic_slice_in_dim(made, begin, shard.shape[0])

    if shape[0] % DEVICES:
        change = jax.lax.map(one, ahead)
    else:
        whole = jax.lax.all_to_all(ahead, "fsdp", 0, 1, tiled=True)
        change = jax.lax.all_to_all(orthogonal(whole) * scale, "fsdp", 1, 0, tiled=True)
    return change.astype(jnp.float32) + DECAY * p, mean


# name -> (the step by hand, the specs of its moments)
BY_HAND: dict[str, tuple[Callable[..., Arrays], tuple[P, ...]]] = {
    "lion": (lion_by_hand, (SHARDED,)),
    "adafactor": (adafactor_by_hand, (ROWS, COLUMNS)),
    "muon": (muon_by_hand, (SHARDED,)),
}


def answer(step: Any, arguments: list[Any]) -> tuple[Any, dict[str, int], float]:
    """(results, bytes by kind, FLOPs) of a compiled step."""
    compiled: Any = jax.jit(step).lower(*arguments).compile()
    sent = Counter[str]()
    for each in read_collectives(parse_module(compiled.as_text()), (("fsdp", DEVICES),)):
        sent[each.kind] += each.bytes_total or 0
    return compiled(*arguments), dict(sent), compiled.cost_analysis()["flops"]


def both(name: str, shape: tuple[int, int, int]) -> list[tuple[Any, dict[str, int], float]]:
    """The answers of the decoder's optimizer and of the one by hand, to the same arguments."""
    mesh = jax.make_mesh((DEVICES,), ("fsdp",), axis_types=(AxisType.Auto,))
    by_hand, specs = BY_HAND[name]
    numbers, dims = (
        np.random.default_rng(0),
        tuple(zip(("layers", "embed", "mlp"), shape, strict=True)),
    )
    g, p, first = (numbers.normal(size=shape).astype(np.float32) for _ in range(3))
    second = {"adafactor": (np.mean(first**2, -1), np.mean(first**2, -2))}
    values = (g, p, np.float32(3), *second.get(name, (first,)))
    placed_by = (SHARDED, SHARDED, P(), *specs)
    arguments = [
        jax.device_put(x, NamedSharding(mesh, spec))
        for x, spec in zip(values, placed_by, strict=True)
    ]
    rule = OPTIMIZERS[name][0]
    if rule is muon:
        sizes: dict[str, Any] = dict(dims) | {
            "heads": 1,
            "kv_heads": 1,
            "head_dim": 128,
            "vocab": 64,
        }
        config = Decoder(**sizes, optimizer=name)
        rule = functools.partial(muon, Model(config, mesh, kernel=False), dims)

    def program(g: Any, p: Any, step: Any, *moments: Any) -> list[jax.Array]:
        more = (jnp.zeros(()),) * (name == "muon")
        change, new = rule(g, p, step, *moments, *more)
        kept = (change, *new[: len(specs)])
        return [
            jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))
            for x, spec in zip(kept, (SHARDED, *specs), strict=True)
        ]

    alone = functools.partial(by_hand, shape)
    apart = jax.shard_map(
        alone, mesh=mesh, in_specs=placed_by, out_specs=(SHARDED, *specs), check_vma=False
    )
    return [answer(each, arguments) for each in (program, apart)]


def alike(found: Any, expected: Any) -> bool:
    """Returns True if two results differ by `NEAR` of their norm at most, no element by `FAR` of the
    largest."""
    off = np.abs(np.asarray(found, np.float64) - expected)
    largest = np.abs(expected).max()
    return bool(
        np.linalg.norm(off) <= NEAR * np.linalg.norm(expected) and off.max() <= FAR * largest
    )


def main(_: Asked, figures: Figures) -> None:
    wrong = apart = 0
    worst = 0.0
    for name in BY_HAND:
        for shape in SHAPES + FEW_LAYERS:
            (found, sent, flops), (expected, by_hand, flops_by_hand) = both(name, shape)
            near, off = all(map(alike, found, expected)), flops / flops_by_hand - 1
            wrong += not near
            if name != "muon" or shape in SHAPES:
                apart, worst = apart + (sent != by_hand), max(worst, abs(off))
            print(f"{name:9} {shape}: {sent}, by hand {by_hand}; FLOPs {off:+.2%}, right {near}")
    cases = len(BY_HAND) * len(SHAPES + FEW_LAYERS)
    figures.add("values that differ", wrong, f"of {cases}", most=0)
    shared = f"of {cases - len(FEW_LAYERS)}, without Muon's products that devices share"
    figures.add("bytes that differ", apart, shared, most=0)
    figures.add("FLOPs, worst", worst, shared, most=FLOPS_OFF)


if __name__ == "__main__":
    measure(main, __doc__)

"""FLOPs of exported programs against closed formulas by hand.

    python -m bench.program_flops [--only NAME,…]

2 for each multiply-add of products (in loops as often as they run, recomputed ones twice),
convolutions (window positions that meet an element, counted here one by one), grouped products (a
row by the matrix of its own group) and kernels (pairs of blocks that a causal mask or a window
leaves, each once); 5 n log2 n of a complex FFT, half of it of a real one; sorting and gathering 0.
Nothing is compiled or run.
"""

import inspect
import itertools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention
from jax.experimental.pallas.ops.tpu.megablox import gmm
from jax.experimental.pallas.ops.tpu.splash_attention import (
    splash_attention_kernel as splash,
    splash_attention_mask as masks,
)
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.figures import Asked, Figures, measure
from spmd_core.engine.exported.describe import describe, read

MESH = abstract_mesh({"x": 4, "y": 2})
OFF = 0.01
M, K, N, G = 256, 128, 512, 8  # rows, summed, columns, groups
HEADS, LENGTH, HEAD = 2, 1024, 128
BLOCK = 128  # of queries and of keys: the default of both kernels
BATCH = 2
# abstract: to import this starts no device
KEY = jax.eval_shape(lambda: jax.random.key(0))


def x(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """An abstract array, sharded over `x` along its first dim where that divides."""
    spec = P("x") if shape and shape[0] % 4 == 0 else P()
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(MESH, spec))


def alone(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """An abstract array without a mesh: a kernel is on one device, or in `shard_map`."""
    return jax.ShapeDtypeStruct(shape, dtype)


def counted(step: Callable[..., Any], arguments: Mapping[str, Any], *platforms: str) -> int:
    """The FLOPs that the description of an exported step has."""
    data = written(step, arguments, platforms or ("cpu", "tpu"))
    return describe(read(data))[0].flops


def positions(size: int, kernel: int, stride: int, low: int, high: int, hole: int = 1, wide: int = 1) -> int:  # fmt: skip
    """Pairs of an output and a kernel position that meet an element, along one dim, counted one by
    one: `hole` and `wide` are the dilations of the input and of the kernel.
    """
    row = [0] * low + [1 if at % hole == 0 else 0 for at in range((size - 1) * hole + 1)] + [0] * high  # fmt: skip
    reach = (kernel - 1) * wide + 1
    starts = range(0, len(row) - reach + 1, stride)
    return sum(row[start + k * wide] for start, k in itertools.product(starts, range(kernel)))


def conv(strides: Any, padding: Any, **more: Any) -> Callable[..., Any]:
    """A convolution of images [batch, rows, columns, channels]."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return lambda x, w: lax.conv_general_dilated(x, w, strides, padding, dimension_numbers=numbers, **more)  # fmt: skip


IMAGES, FILTER = {"x": x(8, 15, 15, 16), "w": x(3, 3, 16, 32)}, 2 * 8 * 16 * 32
SAME = positions(15, 3, 2, 1, 1) ** 2
BOTH = {"x": x(M, K), "w": x(K, N)}
GROUPED = {"x": x(M, K), "w": x(G, K, N), "sizes": x(G, dtype=jnp.int32)}
FFT = {"x": x(16, 64, 32, dtype=jnp.complex64)}
ATTENDED = {name: alone(BATCH, HEADS, LENGTH, HEAD, dtype=jnp.bfloat16) for name in "qkv"}
PRODUCT = BATCH * HEADS * 2 * BLOCK * BLOCK * HEAD  # of a pair of blocks, in every head
ROWS = LENGTH // BLOCK
CAUSAL = ROWS * (ROWS + 1) // 2


def gradient(step: Callable[..., Any], count: int = 2) -> Callable[..., Any]:
    """The loss of a step and its gradients by its first arguments."""
    loss = lambda *given: jnp.sum(step(*given).astype(jnp.float32) ** 2)  # noqa: E731
    return jax.value_and_grad(loss, argnums=tuple(range(count)))


def named(step: Callable[..., Any], names: Iterable[str]) -> Callable[..., Any]:
    """A step with the names of its arguments, by which they are exported."""
    called = lambda *given: step(*given)  # noqa: E731
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    called.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return called


def ragged(x: Any, w: Any, sizes: Any) -> Any:
    return lax.ragged_dot(x, w, sizes)


def mixture(x: Any, up: Any, down: Any, gate: Any) -> Any:
    """Each row to the best of G experts: sorted, multiplied by groups, and put back."""
    expert = jnp.argmax(x @ gate, axis=-1)
    order = jnp.argsort(expert)
    sizes = jnp.bincount(expert, length=G).astype(jnp.int32)
    rows = jax.nn.relu(lax.ragged_dot(x[order], up, sizes))
    return jnp.zeros_like(x).at[order].set(lax.ragged_dot(rows, down, sizes))


def attention(mask: Any, fused: bool = False) -> Callable[..., Any]:
    names = "block_q block_kv block_kv_compute block_q_dkv block_kv_dkv block_kv_dkv_compute"
    dq = () if fused else ("block_q_dq", "block_kv_dq")
    blocks: dict[str, Any] = dict.fromkeys((*names.split(), *dq), BLOCK)
    sizes = splash.BlockSizes(**blocks, use_fused_bwd_kernel=fused)

    def step(q: Any, k: Any, v: Any) -> Any:
        heads = masks.MultiHeadMask([mask] * HEADS)  # here: it makes arrays, for which JAX starts
        kernel = splash.make_splash_mha(heads, block_sizes=sizes, head_shards=1, q_seq_shards=1)
        return jax.vmap(kernel)(q, k, v)

    return step


def by_blocks(x: Any, w: Any) -> Any:
    """A product by a kernel that states no cost."""

    def kernel(x: Any, w: Any, out: Any) -> None:
        out[...] = jnp.dot(x[...], w[...], preferred_element_type=jnp.float32)

    return pl.pallas_call(
        kernel,
        grid=(M // 128, N // 128),
        in_specs=[pl.BlockSpec((128, K), lambda i, j: (i, 0)), pl.BlockSpec((K, 128), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
    )(x, w)  # fmt: skip


def flash(q: Any, k: Any, v: Any) -> Any:
    return flash_attention(q, k, v, causal=True)


def by_platform(x: Any, w: Any) -> Any:
    """A product on TPUs, twice it elsewhere."""
    return lax.platform_dependent(x, w, tpu=lambda x, w: x @ w, default=lambda x, w: x @ w + (2 * x) @ w)  # fmt: skip


def by_hand(x: Any, w: Any) -> Any:
    """`shard_map` over `x`: a row block by gathered weights."""
    local = lambda x, w: x @ lax.all_gather(w, "x", tiled=True)  # noqa: E731
    specs = {"in_specs": (P("x"), P("x")), "out_specs": P("x")}
    return jax.shard_map(local, mesh=MESH, axis_names={"x"}, **specs)(x, w)


def scanned(x: Any, w: Any) -> Any:
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]


def remat(x: Any, w: Any) -> Any:
    return lax.scan(jax.checkpoint(lambda x, w: (jnp.tanh(x @ w), None)), x, w)[0]


def branches(x: Any, w: Any) -> Any:
    return lax.cond(x[0, 0] > 0, lambda: x @ w, lambda: jnp.zeros((M, N)))


def flax_block() -> tuple[Callable[..., Any], dict[str, Any], int]:
    """A block of Flax: attention over 16 heads' worth of width 64, and an MLP four times as wide."""
    width, tokens, rows = 64, 16, 32

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = x + nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x))
            return x + nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(nn.LayerNorm()(x))))

    module, given = Block(), x(rows, tokens, width)
    params = jax.eval_shape(module.init, KEY, given)
    forward = rows * tokens * (2 * 12 * width * width + 2 * 2 * tokens * width)
    step = lambda params, x: module.apply(params, x)  # noqa: E731
    return gradient(step), {"params": params, "x": given}, 3 * forward


def equinox_step() -> tuple[Callable[..., Any], dict[str, Any], int]:
    """A training step of an MLP of Equinox, of depth 3, with adam."""
    width, hidden, rows = 64, 128, 32
    model = eqx.filter_eval_shape(lambda key: eqx.nn.MLP(width, width, hidden, 3, key=key), KEY)  # fmt: skip
    params, static = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    optimizer = optax.adam(1e-3)
    state = jax.eval_shape(optimizer.init, params)

    def step(params: Any, state: Any, x: Any) -> Any:
        loss = lambda p: (jax.vmap(eqx.combine(p, static))(x) ** 2).mean()  # noqa: E731
        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    layers = [(width, hidden), (hidden, hidden), (hidden, hidden), (hidden, width)]
    weights = sum(a * b for a, b in layers)
    first = layers[0][0] * layers[0][1]  # the batch has no gradient
    flops = 2 * rows * (3 * weights - first)
    return step, {"params": params, "state": state, "x": x(rows, width)}, flops


STACK = {"x": x(M, K), "w": x(8, K, K)}
CASES: dict[str, tuple[Callable[..., Any], Mapping[str, Any], float]] = {
    "matmul": (lambda x, w: x @ w, BOTH, 2 * M * K * N),
    "einsum with batch dims": (
        lambda x, w: jnp.einsum("bsd,bdf->bsf", x, w),
        {"x": x(8, M, K), "w": x(8, K, N)},
        2 * 8 * M * K * N,
    ),
    "matmul, int8": (
        lambda x, w: lax.dot(x, w, preferred_element_type=jnp.int32),
        {"x": x(M, K, dtype=jnp.int8), "w": x(K, N, dtype=jnp.int8)},
        2 * M * K * N,
    ),
    "matmul, gradients": (gradient(lambda x, w: x @ w), BOTH, 3 * 2 * M * K * N),
    "scan": (scanned, STACK, 8 * 2 * M * K * K),
    "scan, gradients": (gradient(scanned), STACK, 3 * 8 * 2 * M * K * K),
    "scan, recomputed": (gradient(remat), STACK, 4 * 8 * 2 * M * K * K),
    "branches": (branches, BOTH, 2 * M * K * N),
    "another product by platform": (by_platform, BOTH, 2 * M * K * N),
    "shard_map": (by_hand, BOTH, 2 * M * K * N),
    "flax block, gradients": flax_block(),
    "equinox mlp, adam": equinox_step(),
    "convolution": (conv((1, 1), "VALID"), IMAGES, FILTER * 13**2 * 9),
    "convolution, padded": (conv((2, 2), "SAME"), IMAGES, FILTER * SAME),
    "convolution, dilated kernel": (
        conv((1, 1), "SAME", rhs_dilation=(2, 2)),
        IMAGES,
        FILTER * positions(15, 3, 1, 2, 2, wide=2) ** 2,
    ),
    "convolution, transposed": (
        conv((1, 1), ((1, 2), (1, 2)), lhs_dilation=(2, 2)),
        IMAGES,
        FILTER * positions(15, 3, 1, 1, 2, hole=2) ** 2,
    ),
    "convolution, depthwise": (
        conv((1, 1), "SAME", feature_group_count=16),
        {"x": x(8, 15, 15, 16), "w": x(3, 3, 1, 32)},
        2 * 8 * 32 * positions(15, 3, 1, 1, 1) ** 2,
    ),
    "convolution, groups of a batch": (
        conv((1, 1), "VALID", batch_group_count=4),
        IMAGES,
        FILTER // 4 * 13**2 * 9,
    ),
    "convolution, gradients": (
        gradient(conv((2, 2), "SAME")),
        IMAGES,
        3 * FILTER * SAME,
    ),
    "ragged_dot": (ragged, GROUPED, 2 * M * K * N),
    "ragged_dot, gradients": (gradient(ragged), GROUPED, 3 * 2 * M * K * N),
    "ragged_dot, batched": (
        jax.vmap(ragged),
        {"x": x(4, M, K), "w": x(4, G, K, N), "sizes": x(4, G, dtype=jnp.int32)},
        4 * 2 * M * K * N,
    ),
    "mixture of experts": (
        mixture,
        {"x": x(M, K), "up": x(G, K, N), "down": x(G, N, K), "gate": x(K, G)},
        2 * M * K * (2 * N + G),
    ),
    "fft": (jnp.fft.fft, FFT, 16 * 64 * 5 * 32 * 5),
    "fft, two dims": (jnp.fft.fft2, FFT, 16 * 5 * 64 * 32 * 11),
    "fft, real": (jnp.fft.rfft, {"x": x(16, 64, 32)}, 16 * 64 * 2.5 * 32 * 5),
    "fft, of 48": (
        jnp.fft.ifft,
        {"x": x(16, 48, dtype=jnp.complex64)},
        16 * 5 * 48 * math.log2(48),
    ),
    "sort": (lambda x: jnp.sort(x, axis=0), {"x": x(M, K)}, 0),
    "gather and scatter": (
        lambda table, at: table.at[at].add(table[at]),
        {"table": x(M, K), "at": x(64, dtype=jnp.int32)},
        0,
    ),
    "kernel without a stated cost": (
        by_blocks,
        {"x": alone(M, K), "w": alone(K, N)},
        2 * M * K * N,
    ),
    "flash attention": (
        lambda q, k, v: flash_attention(q, k, v),
        ATTENDED,
        2 * ROWS**2 * PRODUCT,
    ),
    "flash attention, causal": (
        flash,
        ATTENDED,
        2 * CAUSAL * PRODUCT,
    ),
    "flash attention, causal, by hand over 8 devices": (
        jax.shard_map(
            flash, mesh=MESH, in_specs=P(("x", "y")), out_specs=P(("x", "y")), check_vma=False
        ),
        {name: x(8, HEADS, LENGTH, HEAD, dtype=jnp.bfloat16) for name in "qkv"},
        2 * CAUSAL * PRODUCT * 8 // BATCH,
    ),
    "splash attention, causal": (
        attention(masks.CausalMask((LENGTH, LENGTH))),
        ATTENDED,
        2 * CAUSAL * PRODUCT,
    ),
    "splash attention, a window": (
        attention(masks.LocalMask((LENGTH, LENGTH), (BLOCK - 1, 0), 0)),
        ATTENDED,
        2 * (2 * ROWS - 1) * PRODUCT,
    ),
    "splash attention, gradients": (
        gradient(attention(masks.CausalMask((LENGTH, LENGTH))), 3),
        ATTENDED,
        (2 + 3 + 4) * CAUSAL * PRODUCT,
    ),
    "splash attention, gradients at once": (
        gradient(attention(masks.CausalMask((LENGTH, LENGTH)), fused=True), 3),
        ATTENDED,
        (2 + 5) * CAUSAL * PRODUCT,
    ),
    "grouped matmul kernel": (
        lambda x, w, sizes: gmm(x, w, sizes, tiling=(128, 128, 128)),
        {"x": alone(M, K), "w": alone(G, K, N), "sizes": alone(G, dtype=jnp.int32)},
        2 * M * K * N,
    ),
}
ON_TPUS = ("kernel", "flash", "splash", "grouped matmul kernel")


def found(name: str) -> int:
    """The FLOPs that the description of a case's program has."""
    step, arguments, _ = CASES[name]
    platforms = ("tpu",) if name.startswith(ON_TPUS) else ()
    return counted(named(step, arguments), arguments, *platforms)


def main(asked: Asked, figures: Figures) -> None:
    """Count each, and how many are within OFF."""
    names = asked.only.split(",") if asked.only else list(CASES)
    near = 0
    for name in names:
        flops, count = CASES[name][2], found(name)
        share = count / flops if flops else 1.0 + count
        near += abs(share - 1) <= OFF
        note = f"{count:,} for {flops:,.0f}"
        figures.add(f"{name}: share counted", share, least=1 - OFF, most=1 + OFF, note=note)
    figures.add(f"programs whose FLOPs are within 1 %, of {len(names)}", near, least=len(names))


if __name__ == "__main__":
    measure(main, __doc__, only=("", "names, by comma"))

"""The splash kernel of a shard, and a sequence that is sharded over the axis `context`: keys and values are gathered, or pass around a ring."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

from spmd_core.script.programs.decoder_config import Decoder
from spmd_core.script.programs.decoder_flash import flash_call

# how attention goes over `context` -> dims of heads, of queries and of keys, as the rules shard them
CONTEXT_DIMS = {
    "all-gather": ("act_heads", "context_length", "whole"),
    "ring": ("act_heads", "context_length", "context_length"),
    "ulysses": ("context_heads", "whole", "whole"),
}


def token_order(c: Decoder, length: int, devices: int):
    """Positions in the order in which devices along `context` hold them. Balanced: each an early part and the late one that mirrors it, which attend to as many keys as those of any other."""
    if c.context_attention == "ulysses" or c.context_order != "balanced":
        devices = 1
    parts = np.arange(length, dtype=np.int32).reshape(2 * devices, -1)
    return np.concatenate([parts[[each, -1 - each]] for each in range(devices)]).reshape(-1)


def in_order(x, axis, devices):
    """An array of all positions from the balanced order to that of positions."""
    parts = jnp.split(x, 2 * devices, axis)
    return jnp.concatenate([*parts[::2], *parts[::-2]], axis)


def splash_mask(c: Decoder, length: int):
    """The pairs of a query and a key that a layer's attention keeps."""
    if c.window is None or c.window >= length:
        return masks.CausalMask((length, length))
    if c.chunked:
        return masks.ChunkedCausalMask((length, length), c.window)
    return masks.LocalMask((length, length), (c.window - 1, 0), 0)


def splash_kernel(c: Decoder, heads: int, mask, shards: int = 1, name: str | None = "attention"):
    """The kernel of so many heads, and of as many shards of the mask's queries. Without a name it leaves row sums, and has no gradient."""
    queries, keys, part = (
        min(block, length)
        for block, length in zip(
            c.attention_blocks, (mask.shape[0] // shards, *mask.shape[1:] * 2), strict=True
        )
    )
    dq: dict[str, Any] = (
        {} if c.fused_attention_backward else {"block_q_dq": queries, "block_kv_dq": keys}
    )
    sizes = splash.BlockSizes(
        block_q=queries,
        block_kv=keys,
        block_kv_compute=part,
        block_q_dkv=queries,
        block_kv_dkv=keys,
        block_kv_dkv_compute=part,
        use_fused_bwd_kernel=c.fused_attention_backward,
        **dq,
    )
    return splash.make_splash_mha(
        mask=masks.MultiHeadMask([mask] * heads),
        head_shards=1,
        q_seq_shards=shards,
        block_sizes=sizes,
        attn_logits_soft_cap=c.attention_cap,
        residual_checkpoint_name=name,
        save_residuals=name is None,
    )


def added(sums, more):
    """(Mean values, log of the sum of weights) of each query over the keys of both."""
    total = jnp.logaddexp(sums[1], more[1])
    shares = (jnp.exp(each - total)[..., None] for each in (sums[1], more[1]))
    mixed = (each * share for each, share in zip((sums[0], more[0]), shares, strict=True))
    return sum(mixed), total


def around_ring(step, carried, passed, sums=()):
    """Passes arrays to the next device along `context` until each device had those of all, and sums of what a step makes of them back home, beside the steps. step(carried, passed, which of a device's parts both sides take) gives (carried, what is added to the sums): its own in turn, then others'."""
    size, here = jax.lax.axis_size("context"), jax.lax.axis_index("context")
    following = [(device, (device + 1) % size) for device in range(size)]

    def to_next(arrays):
        return jax.tree.map(lambda x: jax.lax.ppermute(x, "context", following), arrays)

    def taken(carried, passed, sums, pairs):
        for pair in pairs:
            carried, more = step(carried, passed, pair)
            sums = [x.at[pair[1]].add(y) for x, y in zip(sums, more, strict=True)]
        return carried, sums

    def next_device(state, number):
        carried, passed, sums = state
        either = jnp.where((here - number) % size < here, 0, 1)
        pairs = (1, 0, False), (either, either, False)
        carried, sums = taken(carried, passed, to_next(sums), pairs)
        return (carried, to_next(passed), sums), None

    own = (0, 0, True), (1, 0, False), (1, 1, True)
    carried, sums = taken(carried, passed, [*sums], own)
    state = carried, to_next(passed), sums
    (carried, _, sums), _ = jax.lax.scan(next_device, state, jnp.arange(1, size))
    return carried, to_next(sums)


def halves(x, axis):
    """The early and the late part of a shard."""
    return jnp.stack(jnp.split(x, 2, axis))


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def ring_attention(c: Decoder, query, key, value, segments):
    """Attention [batch, heads, length, head_dim] of a shard in the balanced order, whose queries stay where they are."""
    return ring_forward(c, query, key, value, segments)[0]


def ring_kernels(c: Decoder, query):
    """The kernels of two parts of a shard: the same, of which pairs are masked, and others."""
    length, heads = query.shape[-2] // 2, query.shape[1]
    full = masks.FullMask((length, length))
    return {
        same: splash_kernel(c, heads, mask, name=None)
        for same, mask in ((True, masks.CausalMask((length, length))), (False, full))
    }


def scope(same):
    """Names what no table of a kernel without a mask shows."""
    return jax.named_scope("own keys" if same else "every pair")


def ring_forward(c: Decoder, query, key, value, segments):
    kernels, queries, own = ring_kernels(c, query), halves(query, 2), halves(segments, 1)

    def step(sums, passed, pair):
        of_query, of_key, same = pair
        keys, values, others = (each[of_key] for each in passed)
        attend = jax.vmap(kernels[same])
        ids = splash.SegmentIds(own[of_query], others)
        with scope(same):
            mixed, (total,) = attend(queries[of_query], keys, values, segment_ids=ids)
        more = added([each[of_query] for each in sums], (mixed.astype(jnp.float32), total))
        return [x.at[of_query].set(y) for x, y in zip(sums, more, strict=True)], ()

    passed = halves(key, 2), halves(value, 2), own
    shape = (*queries.shape[:-1], value.shape[-1])
    sums = [jnp.zeros(shape, jnp.float32), jnp.full(shape[:-1], -1e30, jnp.float32)]
    sums, _ = around_ring(step, sums, passed)
    mixed = checkpoint_name(jnp.concatenate([*sums[0]], 2).astype(query.dtype), "attention")
    total = checkpoint_name(jnp.concatenate([*sums[1]], 2), "attention")
    return mixed, (query, key, value, segments, mixed, total)


def ring_backward(c: Decoder, kept, gradient):
    query, key, value, segments, mixed, total = kept
    kernels, own = ring_kernels(c, query), halves(segments, 1)
    given = [halves(each, 2) for each in (query, mixed, total, gradient)]

    def step(total, passed, pair):
        of_query, of_key, same = pair
        keys, values, others = passed
        kernel = kernels[same]

        def one(query, key, value, own, others, mixed, total, gradient):
            kept = (query, key, value, splash.SegmentIds(own, others), None, mixed, total)
            infos = kernel.dq_mask_info, kernel.dkv_mask_info
            options = {**kernel.kwargs, "save_residuals": False, "res": (*kept, *infos)}
            return splash._splash_attention_bwd(**options, do=gradient)[3:6]  # pyright: ignore[reportPrivateUsage]

        query, mixed, of_all, gradient = (each[of_query] for each in given)
        arrays = query, keys[of_key], values[of_key], own[of_query], others[of_key]
        with scope(same):
            of_queries, *of_keys = jax.vmap(one)(*arrays, mixed, of_all, gradient)
        return total.at[of_query].add(of_queries), of_keys

    passed = halves(key, 2), halves(value, 2), own
    nothing = [jnp.zeros(each.shape, jnp.float32) for each in (given[0], *passed[:2])]
    total, sums = around_ring(step, nothing[0], passed, nothing[1:])
    parts = (jnp.concatenate([*each], 2).astype(query.dtype) for each in (total, *sums))
    return *parts, None


ring_attention.defvjp(ring_forward, ring_backward)


def attend_shard(c: Decoder, devices: int, kernel, query, key, value, own, others, *sinks):
    """Attention of a shard; `kernel`: over keys that are gathered along as many devices of `context`."""
    if c.gpu:
        return flash_call(query, key, value, c.window or 0)
    if devices > 1 and c.context_attention == "ring":
        return ring_attention(c, query, key, value, own)
    if kernel and c.context_order == "balanced":
        key, value = (in_order(each, 2, devices) for each in (key, value))
        others = in_order(others, 1, devices)
    attend = kernel or splash_kernel(c, query.shape[1], splash_mask(c, query.shape[2]))
    if sinks:
        attend = functools.partial(attend, sinks=sinks[0])
    return jax.vmap(attend)(query, key, value, segment_ids=splash.SegmentIds(own, others))

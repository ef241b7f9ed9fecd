"""Causal attention: each query's mean of the values up to its own position, weighted by the softmax of query · key / sqrt(head_dim).

query is (batch, sequence, heads, head_dim). key and value have `kv_heads` heads, each shared by heads / kv_heads neighbouring query heads. Sums are kept in
float32.
"""

import jax
import jax.numpy as jnp

PRECISION = None
SEQUENCE_AXES = ()
HEADS_AXES = ()
KV_HEADS_AXES = ()
HEAD_DIM_AXES = ()
GATHERED_SHARDING = None
SHARED_SHARDING = None
SCORES_SHARDING = None
MIXED_SHARDING = None


def dot_products(query, key, sharding=None):
    """query · key of every pair of positions in float32: (batch, key heads, query heads of each, queries, keys)."""
    grouped = query.reshape(*query.shape[:-2], key.shape[-2], -1, query.shape[-1])
    return jnp.einsum(
        "...qhgd,...khd->...hgqk",
        grouped,
        key,
        precision=PRECISION,
        preferred_element_type=jnp.float32,
        out_sharding=sharding,
    )


def mean_values(scores, value, first=0, sharding=None):
    """The weighted mean of the values that each query attends to: those up to its own position. `first` is the position of the first query."""
    queries, keys = scores.shape[-2:]
    seen = first + jnp.arange(queries)[:, None] >= jnp.arange(keys)
    weights = jax.nn.softmax(jnp.where(seen, scores, -jnp.inf), axis=-1).astype(value.dtype)
    mixed = jnp.einsum(
        "...hgqk,...khd->...qhgd",
        weights,
        value,
        precision=PRECISION,
        preferred_element_type=jnp.float32,
        out_sharding=sharding,
    )
    return mixed.reshape(*mixed.shape[:-3], -1, mixed.shape[-1]).astype(value.dtype)


def attention(query, key, value):
    scores = dot_products(query, key) / query.shape[-1] ** 0.5
    return mean_values(scores, value)


def own_heads(key, heads):
    """The key heads that this device's `heads` query heads need.

    Where key heads are sharded like query heads, they are the local ones. Where they are replicated, or sharded over the first of the axes that shard query
    heads, this device takes one local key head for each query head. Otherwise they are gathered first.
    """
    others = HEADS_AXES[len(KV_HEADS_AXES) :]
    if HEADS_AXES[: len(KV_HEADS_AXES)] != KV_HEADS_AXES:
        key, others = jax.lax.all_gather(key, KV_HEADS_AXES, axis=-2, tiled=True), HEADS_AXES
    if not others:
        return key
    shared = jnp.repeat(key, heads * jax.lax.axis_size(others) // key.shape[-2], axis=-2)
    return jax.lax.dynamic_slice_in_dim(shared, heads * jax.lax.axis_index(others), heads, axis=-2)


def attention_shards(query, key, value):
    """Heads are independent. Along a sharded sequence, queries stay sharded, and the keys and values that they attend to are gathered."""
    key, value = (
        jax.lax.all_gather(each, SEQUENCE_AXES, axis=-3, tiled=True) for each in (key, value)
    )
    key, value = (own_heads(each, query.shape[-2]) for each in (key, value))
    head_dim = query.shape[-1] * jax.lax.axis_size(HEAD_DIM_AXES)
    scores = jax.lax.psum(dot_products(query, key), HEAD_DIM_AXES) / head_dim**0.5
    return mean_values(scores, value, first=query.shape[-3] * jax.lax.axis_index(SEQUENCE_AXES))


def attention_explicit(query, key, value):
    """With sharding in types, keys and values are replicated along the sequence, each query head gets its own, and products declare their sharding."""
    key, value = (jax.sharding.reshard(each, GATHERED_SHARDING) for each in (key, value))
    key, value = (
        jnp.repeat(each, query.shape[-2] // each.shape[-2], axis=-2, out_sharding=SHARED_SHARDING)
        for each in (key, value)
    )
    scores = dot_products(query, key, SCORES_SHARDING) / query.shape[-1] ** 0.5
    return mean_values(scores, value, sharding=MIXED_SHARDING)

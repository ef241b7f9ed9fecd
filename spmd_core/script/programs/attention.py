"""Attention: each query's mean of the values up to its own position, or of all, weighted by the softmax of query · key / sqrt(head_dim).

query is (batch, sequence, heads, head_dim). key and value have `kv_heads` heads, each shared by heads / kv_heads neighbouring query heads. Sums are kept in
float32.
"""

import jax
import jax.numpy as jnp
import numpy as np

CAUSAL = True
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


def masked(scores, first):
    """Scores of keys up to a query's own position, where attention is causal; `first` is the position of the first query after the first key."""
    if not CAUSAL:
        return scores
    queries, keys = scores.shape[-2:]
    seen = first + jnp.arange(queries)[:, None] >= jnp.arange(keys)
    return jnp.where(seen, scores, -jnp.inf)


def mean_values(scores, value, first=0, sharding=None):
    """The weighted mean of the values that each query attends to. `first` is the position of the first query."""
    weights = jax.nn.softmax(masked(scores, first), axis=-1).astype(value.dtype)
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
    first = query.shape[-3] * jax.lax.axis_index(SEQUENCE_AXES)
    return mean_values(scores_of(query, key), value, first)


def scores_of(query, key):
    """Scaled scores, added over devices that hold parts of head_dim."""
    head_dim = query.shape[-1] * jax.lax.axis_size(HEAD_DIM_AXES)
    return jax.lax.psum(dot_products(query, key), HEAD_DIM_AXES) / head_dim**0.5


def more_values(sums, query, key, value, first=None):
    """(Largest score, sum of weights, weighted sum of values) of each query with those of more keys. `first` is the position of the first query after the first key; None: every query attends to every key."""
    scores = scores_of(query, key)
    scores = scores if first is None else masked(scores, first)
    largest = scores.max(axis=-1, keepdims=True)
    if sums is not None:
        largest = jnp.maximum(largest, sums[0])
    weights = jnp.exp(scores - largest)
    mixed = jnp.einsum(
        "...hgqk,...khd->...hgqd",
        weights.astype(value.dtype),
        value,
        precision=PRECISION,
        preferred_element_type=jnp.float32,
    )
    total = weights.sum(axis=-1, keepdims=True)
    if sums is None:
        return largest, total, mixed
    before = jnp.exp(sums[0] - largest)
    return largest, sums[1] * before + total, sums[2] * before + mixed


def means(sums, dtype):
    """The weighted means of sums that are complete, query heads in their order."""
    mixed = jnp.moveaxis(sums[2] / sums[1], -2, -4)
    return mixed.reshape(*mixed.shape[:-3], -1, mixed.shape[-1]).astype(dtype)


def around_ring(step, key, value, sums):
    """Passes keys and values to the next device and adds them to the sums, until each device had those of all. step(key, value, sums, device that they are of)."""
    size, here = jax.lax.axis_size(SEQUENCE_AXES), jax.lax.axis_index(SEQUENCE_AXES)
    following = [(device, (device + 1) % size) for device in range(size)]

    def passed(number, carried):
        key, value = (jax.lax.ppermute(each, SEQUENCE_AXES, following) for each in carried[:2])
        return key, value, step(key, value, carried[2], (here - number) % size)

    return jax.lax.fori_loop(1, size, passed, (key, value, sums))[2]


def attention_ring(query, key, value):
    """Queries stay where they are; each device masks what its queries do not attend to."""
    key, value = (own_heads(each, query.shape[-2]) for each in (key, value))
    here, length = jax.lax.axis_index(SEQUENCE_AXES), query.shape[-3]

    def step(key, value, sums, source):
        return more_values(sums, query, key, value, length * (here - source))

    sums = more_values(None, query, key, value, 0)
    return means(around_ring(step, key, value, sums), value.dtype)


def homes(size):
    """Of 2 * size parts of a sequence, which device holds a device's first one in the balanced order, and its second: part i is with device i, or with 2 * size - 1 - i."""
    parts = [min(part, 2 * size - 1 - part) for part in range(2 * size)]
    return [list(enumerate(parts[first::2])) for first in (0, 1)]


def balanced(array):
    """The early and the late part of a device in the balanced order, from its shard in the order of positions."""
    even, odd = (
        jax.lax.ppermute(part, SEQUENCE_AXES, moves)
        for part, moves in zip(
            jnp.split(array, 2, axis=-3), homes(jax.lax.axis_size(SEQUENCE_AXES)), strict=True
        )
    )
    is_even = jax.lax.axis_index(SEQUENCE_AXES) % 2 == 0
    return jnp.where(is_even, even, odd), jnp.where(is_even, odd, even)


def in_order(early, late):
    """A device's shard in the order of positions: the inverse of `balanced`."""
    is_even = jax.lax.axis_index(SEQUENCE_AXES) % 2 == 0
    parts = jnp.where(is_even, early, late), jnp.where(is_even, late, early)
    moved = (
        jax.lax.ppermute(part, SEQUENCE_AXES, [(home, device) for device, home in moves])
        for part, moves in zip(parts, homes(jax.lax.axis_size(SEQUENCE_AXES)), strict=True)
    )
    return jnp.concatenate([*moved], axis=-3)


def attention_zigzag(query, key, value):
    """Late queries attend to the early part of every device. Of an earlier device early queries do as well; of a later one late queries attend to the late part."""
    here = jax.lax.axis_index(SEQUENCE_AXES)
    early, late = balanced(query)
    key, value = (
        jnp.concatenate(balanced(own_heads(each, query.shape[-2])), axis=-3)
        for each in (key, value)
    )
    halves = jnp.split(key, 2, axis=-3), jnp.split(value, 2, axis=-3)

    def step(key, value, sums, source):
        (early_key, late_key), (early_value, late_value) = (
            jnp.split(each, 2, axis=-3) for each in (key, value)
        )
        of_early, of_late = sums
        of_late = more_values(of_late, late, early_key, early_value)

        def either(one, other):
            return jax.tree.map(lambda *pair: jnp.where(source < here, *pair), one, other)

        added = more_values(
            either(of_early, of_late),
            either(early, late),
            either(early_key, late_key),
            either(early_value, late_value),
        )
        return either(added, of_early), either(of_late, added)

    (early_key, late_key), (early_value, late_value) = halves
    of_late = more_values(None, late, early_key, early_value)
    sums = (
        more_values(None, early, early_key, early_value, 0),
        more_values(of_late, late, late_key, late_value, 0),
    )
    sums = around_ring(step, key, value, sums)
    return in_order(*(means(each, value.dtype) for each in sums))


def attention_ulysses(query, key, value):
    """Shards of the sequence are exchanged for shards of the heads, and back. Key heads that do not divide over the devices are repeated as often as makes them."""
    size = jax.lax.axis_size(SEQUENCE_AXES)
    key, value = (own_heads(each, query.shape[-2]) for each in (key, value))
    times = size // int(np.gcd(key.shape[-2], size))
    key, value = (jnp.repeat(each, times, axis=-2) for each in (key, value))
    sequence, heads = query.ndim - 3, query.ndim - 2
    query, key, value = (
        jax.lax.all_to_all(each, SEQUENCE_AXES, heads, sequence, tiled=True)
        for each in (query, key, value)
    )
    mixed = mean_values(scores_of(query, key), value)
    return jax.lax.all_to_all(mixed, SEQUENCE_AXES, sequence, heads, tiled=True)


def attention_explicit(query, key, value):
    """With sharding in types, keys and values are replicated along the sequence, each query head gets its own, and products declare their sharding."""
    key, value = (jax.sharding.reshard(each, GATHERED_SHARDING) for each in (key, value))
    key, value = (
        jnp.repeat(each, query.shape[-2] // each.shape[-2], axis=-2, out_sharding=SHARED_SHARDING)
        for each in (key, value)
    )
    scores = dot_products(query, key, SCORES_SHARDING) / query.shape[-1] ** 0.5
    return mean_values(scores, value, sharding=MIXED_SHARDING)

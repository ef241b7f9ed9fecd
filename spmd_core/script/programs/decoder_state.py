"""Mixers with a state for each head in place of all keys: the gated delta rule and Mamba-2, computed a chunk of the sequence at a time."""

import functools

import jax
import jax.numpy as jnp


@jax.named_scope("convolution")
def convolved(x, taps, bias=None, before=None):
    """silu of the causal convolution of each channel of x [batch, length, head, dim] with its taps [tap, head, dim]; `before`: what precedes x, zeros where it is None."""
    count, length = len(taps), x.shape[1]
    if before is None:
        padded = jnp.pad(x, ((0, 0), (count - 1, 0), (0, 0), (0, 0)))
    else:
        padded = jnp.concatenate([before.astype(x.dtype), x], axis=1)
    y = sum(padded[:, i : i + length] * taps[i].astype(x.dtype) for i in range(count))
    return jax.nn.silu(y if bias is None else y + bias.astype(x.dtype))


def unit(x):
    """x over its length along the last dim."""
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.sum(wide * wide, -1, keepdims=True) + 1e-6)).astype(x.dtype)


def in_chunks(x, size):
    """[batch, length, head, ...] as [chunk, batch, head, place, ...]."""
    batch, length = x.shape[:2]
    return jnp.moveaxis(x.reshape(batch, length // size, size, *x.shape[2:]), (1, 3), (0, 2))


def out_of_chunks(x):
    """The inverse of `in_chunks`."""
    x = jnp.moveaxis(x, (0, 2), (1, 3))
    return x.reshape(x.shape[0], -1, *x.shape[3:])


def spread(decay):
    """(sums of log decays up to each place, what is left at each place of what was written at an earlier one) of [..., place]."""
    total = jnp.cumsum(decay, axis=-1)
    seen = jnp.tril(jnp.ones((decay.shape[-1],) * 2, bool))
    apart = jnp.where(seen, total[..., :, None] - total[..., None, :], 0.0)
    return total, jnp.where(seen, jnp.exp(apart), 0.0)


_times = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)


@jax.named_scope("delta rule")
def delta_rule(query, key, value, decay, rate, chunk, state=None):
    """(values [batch, length, head, dim], the state after them) read from a state that each key [batch, length, head, dim] corrects by `rate`, after `decay`, its logarithm, both [batch, length, head]. The chunked form of arXiv:2412.06464, section 3.3."""
    dtype = value.dtype
    query, key = unit(query) * query.shape[-1] ** -0.5, unit(key)
    rate = rate[..., None].astype(dtype)
    written, keys = value * rate, key * rate
    q, k, v, w, d = (in_chunks(each, chunk) for each in (query, key, written, keys, decay))
    total, left = spread(d)
    own = jnp.tril(_times("nbhid,nbhjd->nbhij", w, k) * left, -1)
    both = jnp.concatenate([v, w * jnp.exp(total)[..., None].astype(dtype)], axis=-1)
    solved = jax.lax.linalg.triangular_solve(
        own + jnp.eye(chunk),
        both.astype(jnp.float32),
        left_side=True,
        lower=True,
        unit_diagonal=True,
    ).astype(dtype)
    new, read = jnp.split(solved, [v.shape[-1]], axis=-1)
    mixed = (_times("nbhid,nbhjd->nbhij", q, k) * left).astype(dtype)

    def step(state, part):
        q, k, new, read, mixed, total = part
        few = state.astype(dtype)
        corrected = new - _times("bhid,bhde->bhie", read, few).astype(dtype)
        later = jnp.exp(total[..., -1:] - total)[..., None].astype(dtype)
        added = _times("bhid,bhie->bhde", k * later, corrected)
        y = _times("bhid,bhde->bhie", q * jnp.exp(total)[..., None].astype(dtype), few)
        y = y + _times("bhij,bhje->bhie", mixed, corrected)
        return state * jnp.exp(total[..., -1, None, None]) + added, y.astype(dtype)

    return _scanned(step, (q, k, new, read, mixed, total), k.shape[-1], v.shape[-1], state)


@jax.named_scope("state space")
def state_space(query, key, value, decay, chunk, state=None):
    """(values [batch, length, head, dim], the state after them) read by queries from a state to which each key adds its value, after `decay`, its logarithm [batch, length, head]. The chunked form of arXiv:2405.21060, section 6."""
    dtype = value.dtype
    q, k, v, d = (in_chunks(each, chunk) for each in (query, key, value, decay))
    total, left = spread(d)
    mixed = (_times("nbhid,nbhjd->nbhij", q, k) * left).astype(dtype)

    def step(state, part):
        q, k, v, mixed, total = part
        later = jnp.exp(total[..., -1:] - total)[..., None].astype(dtype)
        added = _times("bhid,bhie->bhde", k * later, v)
        before = q * jnp.exp(total)[..., None].astype(dtype)
        y = _times("bhid,bhde->bhie", before, state.astype(dtype))
        y = y + _times("bhij,bhje->bhie", mixed, v)
        return state * jnp.exp(total[..., -1, None, None]) + added, y.astype(dtype)

    return _scanned(step, (q, k, v, mixed, total), k.shape[-1], v.shape[-1], state)


def _scanned(step, parts, keys, values, state):
    """All chunks in turn, the state in float32: zeros where there is none before."""
    batch, heads = parts[0].shape[1:3]
    if state is None:
        state = jnp.zeros((batch, heads, keys, values), jnp.float32)
    state, y = jax.lax.scan(step, state, parts)
    return out_of_chunks(y), state

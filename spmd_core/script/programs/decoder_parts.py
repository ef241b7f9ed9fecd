"""Parts of a decoder without weights of a matmul: norms, rotary embedding, cross entropy."""

import functools

import jax
import jax.numpy as jnp


@jax.named_scope("norm")
def rms_norm(x, scale=None):
    wide = x.astype(jnp.float32)
    normal = (wide * jax.lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + 1e-5)).astype(
        x.dtype
    )
    return normal if scale is None else normal * scale.astype(x.dtype)


def capped(x, cap):
    """Values within ±cap, which is None without one."""
    return jnp.tanh(x / cap) * cap if cap else x


def all_heads_norm(x, scale):
    """The norm of all heads [batch, length, head, dim] as one."""
    flat = x.reshape(*x.shape[:2], -1)
    return rms_norm(flat, scale.reshape(-1)).reshape(x.shape)


@jax.named_scope("norm")
def layer_norm(x, scale, bias):
    wide = x.astype(jnp.float32)
    centred = wide - jnp.mean(wide, axis=-1, keepdims=True)
    normal = centred * jax.lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + 1e-6)
    return normal.astype(x.dtype) * scale.astype(x.dtype) + bias.astype(x.dtype)


def mlp_hidden(gate, up, activation):
    """What an mlp multiplies by its last matrix; gate is None for one without."""
    if activation == "clamped_silu":  # as gpt-oss has it
        gate, up = jnp.minimum(gate, 7.0), jnp.clip(up, -7.0, 7.0)
        return gate * jax.nn.sigmoid(1.702 * gate) * (up + 1)
    if activation == "relu2":
        activated = jnp.square(jax.nn.relu(up if gate is None else gate))
        return activated if gate is None else activated * up
    act = getattr(jax.nn, activation)
    return act(up) if gate is None else act(gate) * up


@jax.named_scope("rotary")
def rotate(x, positions):
    """Rotary embedding of [batch, length, heads, head_dim], halves rotated against one another."""
    half = x.shape[-1] // 2
    timescale = 10000.0 ** (jnp.arange(half, dtype=jnp.float32) / half)
    angle = positions[:, :, None, None].astype(jnp.float32) / timescale
    first, second = jnp.split(x, 2, axis=-1)
    sin, cos = jnp.sin(angle), jnp.cos(angle)
    rotated = [
        (first * cos - second * sin).astype(x.dtype),
        (second * cos + first * sin).astype(x.dtype),
    ]
    return jnp.concatenate(rotated, axis=-1)


@functools.partial(jax.custom_vjp)
def cross_entropy(logits, targets):
    return _cross_entropy(logits, targets)[0]


def _cross_entropy(logits, targets):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    weights = jnp.exp(shifted)
    total = jnp.sum(weights, axis=-1, keepdims=True)
    return jnp.log(total[..., 0]) - jnp.sum(targets * shifted, axis=-1), (targets, weights, total)


def _cross_entropy_gradient(kept, gradient):
    targets, weights, total = kept
    return gradient[..., None] * (weights / total - targets), jnp.zeros_like(targets)


cross_entropy.defvjp(_cross_entropy, _cross_entropy_gradient)

"""One block of a decoder, forward: causal attention, then a gated network of two layers, each on RMS norms and added to what came in."""

import jax
import jax.numpy as jnp
import numpy as np

from spmd_core.script.programs.attention import attention, attention_explicit, attention_shards

PRECISION = None
SUM_DTYPE = None
HEADS_AXES = ()
HEAD_DIM_AXES = ()
MLP_AXES = ()
X_SHARDING = None
QUERY_SHARDING = None
KEY_SHARDING = None
HIDDEN_SHARDING = None


def initialized(weights):
    """Weights whose product with something of variance 1 has variance 1: it adds as many terms as their first dim has."""
    return weights / np.sqrt(weights.shape[0])


def initialized_out(weights):
    """The same for the weights after the attention, where heads and head_dim are added over."""
    return weights / np.sqrt(weights.shape[0] * weights.shape[1])


def rms_norm(x, scale):
    wide = x.astype(jnp.float32)
    return (wide * jax.lax.rsqrt(jnp.mean(wide**2, axis=-1, keepdims=True) + 1e-6)).astype(
        x.dtype
    ) * scale


def project(x, weights, sharding=None):
    """From embed to heads and head_dim."""
    return jnp.einsum("...se,ehd->...shd", x, weights, precision=PRECISION, out_sharding=sharding)


def project_back(mixed, weights, sharding=None, dtype=None):
    """From heads and head_dim to embed. `dtype` is that of the sums; None: as the operands."""
    return jnp.einsum(
        "...shd,hde->...se",
        mixed,
        weights,
        precision=PRECISION,
        preferred_element_type=dtype,
        out_sharding=sharding,
    )


def dense(x, weights, sharding=None, dtype=None):
    return jnp.matmul(
        x, weights, precision=PRECISION, preferred_element_type=dtype, out_sharding=sharding
    )


def transformer_block(
    x,
    attention_scale,
    query_weights,
    key_weights,
    value_weights,
    out_weights,
    mlp_scale,
    gate_weights,
    up_weights,
    down_weights,
):
    normed = rms_norm(x, attention_scale)
    mixed = attention(
        project(normed, query_weights), project(normed, key_weights), project(normed, value_weights)
    )
    x = x + project_back(mixed, out_weights)
    normed = rms_norm(x, mlp_scale)
    hidden = jax.nn.silu(dense(normed, gate_weights)) * dense(normed, up_weights)
    return x + dense(hidden, down_weights)


def transformer_block_shards(
    x,
    attention_scale,
    query_weights,
    key_weights,
    value_weights,
    out_weights,
    mlp_scale,
    gate_weights,
    up_weights,
    down_weights,
):
    """Each device has its own heads and its own part of mlp: two sums over devices, after the attention and after the last layer.

    What they add is not rounded before. Weights are replicated along embed here: where they are stored sharded, they were gathered before.
    """
    normed = rms_norm(x, attention_scale)
    mixed = attention_shards(
        project(normed, query_weights), project(normed, key_weights), project(normed, value_weights)
    )
    x = x + jax.lax.psum(
        project_back(mixed, out_weights, dtype=SUM_DTYPE), HEADS_AXES + HEAD_DIM_AXES
    ).astype(x.dtype)
    normed = rms_norm(x, mlp_scale)
    hidden = jax.nn.silu(dense(normed, gate_weights)) * dense(normed, up_weights)
    return x + jax.lax.psum(dense(hidden, down_weights, dtype=SUM_DTYPE), MLP_AXES).astype(x.dtype)


def transformer_block_explicit(
    x,
    attention_scale,
    query_weights,
    key_weights,
    value_weights,
    out_weights,
    mlp_scale,
    gate_weights,
    up_weights,
    down_weights,
):
    """In types, each product declares how it is sharded."""
    normed = rms_norm(x, attention_scale)
    query, key, value = (
        project(normed, query_weights, QUERY_SHARDING),
        project(normed, key_weights, KEY_SHARDING),
        project(normed, value_weights, KEY_SHARDING),
    )
    x = x + project_back(attention_explicit(query, key, value), out_weights, X_SHARDING)
    normed = rms_norm(x, mlp_scale)
    hidden = jax.nn.silu(dense(normed, gate_weights, HIDDEN_SHARDING)) * dense(
        normed, up_weights, HIDDEN_SHARDING
    )
    return x + dense(hidden, down_weights, X_SHARDING)

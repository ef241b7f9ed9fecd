"""Causal attention on GPUs by one call each way, as cuDNN's flash attention makes it.

The call is opaque: cuDNN has to be there to lower its own, and absent GPUs have none. On GPUs that are
attached `jax.nn.dot_product_attention(…, implementation="cudnn")` is the same.
"""

import functools

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def flash_call(query, key, value, window):
    """Mixed values [batch, heads, length, head_dim]; window is 0 for all of the past."""
    return _flash_forward(query, key, value, window)[0]


def _flash_forward(query, key, value, window):
    outs = (
        jax.ShapeDtypeStruct(query.shape, query.dtype),
        jax.ShapeDtypeStruct(query.shape[:3], jnp.float32),
    )
    call = jax.ffi.ffi_call("flash_attention_forward", outs)
    mixed, sums = (
        checkpoint_name(each, "attention") for each in call(query, key, value, window=window)
    )
    return mixed, (query, key, value, mixed, sums)


def _flash_backward(window, residuals, gradient):
    shapes = [jax.ShapeDtypeStruct(each.shape, each.dtype) for each in residuals[:3]]
    call = jax.ffi.ffi_call("flash_attention_backward", shapes)
    return tuple(call(*residuals, gradient, window=window))


flash_call.defvjp(_flash_forward, _flash_backward)

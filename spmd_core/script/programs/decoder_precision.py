"""Matmuls whose operands have 8 bits: forward and backward by dtypes of their own, with a scale for each array."""

import functools

import jax
import jax.numpy as jnp

LIMITS = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "int8": 127.0}
FIXED = 224.0  # the largest value of a static scale: `fixed,-224,224` of MaxText's recipes


def quantized(x, dtype, static):
    """(x in `dtype`, its scale): by a fixed scale, or by the largest value of all of x."""
    if dtype not in LIMITS:
        return x, jnp.float32(1)
    most = FIXED if static else jnp.max(jnp.abs(x)).astype(jnp.float32) + 1e-30
    scale = jnp.float32(most / LIMITS[dtype])
    return reduced(x, scale, dtype), scale


def reduced(x, scale, dtype):
    """x over a scale, in a dtype of 8 bits."""
    scaled = jnp.clip(x.astype(jnp.float32) / scale, -LIMITS[dtype], LIMITS[dtype])
    return (jnp.round(scaled) if dtype == "int8" else scaled).astype(dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def scaled_einsum(equation, how, x, weight):
    """An einsum of two operands in 8 bits; `how`: the dtypes of both passes, and whether scales of operands and of gradients are static."""
    return _einsum_forward(equation, how, x, weight)[0]


def _einsum_forward(equation, how, x, weight):
    forward, _, static, _ = how
    (few, of_x), (small, of_weight) = (quantized(each, forward, static) for each in (x, weight))
    wide = jnp.int32 if forward == "int8" else x.dtype
    y = jnp.einsum(equation, few, small, preferred_element_type=wide)
    kept = (few, of_x), (small, of_weight)
    return (y * (of_x * of_weight)).astype(x.dtype), (kept, _empty(x), _empty(weight))


def _empty(x):
    """Nothing of the dtype of x: residuals keep the dtype alone."""
    return jnp.zeros(0, x.dtype)


def _wide(kept, dtype):
    """Kept operands for a backward pass in another dtype."""
    return [(each.astype(jnp.float32) * scale).astype(dtype) for each, scale in kept], (1.0, 1.0)


def _operands(how, kept, gradient):
    """(gradient, its scale, x and weight, their scales) of a backward pass."""
    if how[1] not in LIMITS:
        return gradient, 1.0, *_wide(kept, gradient.dtype)
    small, scale = quantized(gradient, how[1], how[3])
    return small, scale, [each for each, _ in kept], [each for _, each in kept]


def _einsum_backward(equation, how, residuals, gradient):
    kept, x, weight = residuals
    left, right, out = equation.replace("->", ",").split(",")
    g, of_g, (few, small), (of_x, of_weight) = _operands(how, kept, gradient)
    times = functools.partial(jnp.einsum, preferred_element_type=jnp.float32)
    dx = times(f"{out},{right}->{left}", g, small) * (of_g * of_weight)
    dw = times(f"{left},{out}->{right}", few, g) * (of_g * of_x)
    return dx.astype(x.dtype), dw.astype(weight.dtype)


scaled_einsum.defvjp(_einsum_forward, _einsum_backward)


def _ragged(rows, weights, sizes, contracted):
    """Rows in groups by a matrix of each; `contracted`: its dim that is summed over."""
    numbers = jax.lax.RaggedDotDimensionNumbers((((1,), (contracted,)), ((), ())), [0], [0])
    wide = jnp.int32 if rows.dtype == jnp.int8 else jnp.float32
    return jax.lax.ragged_dot_general(rows, weights, sizes, numbers, preferred_element_type=wide)


def stored_grouped(rows, weights, scales, sizes):
    """Rows in groups by matrices that are stored in 8 bits; `scales`: of the matrices, and of the rows."""
    y = _ragged(reduced(rows, scales[1], str(weights.dtype)), weights, sizes, 1)
    return (y * (scales[0] * scales[1])).astype(rows.dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def scaled_grouped(how, gather, multiply, rows, weights, sizes):
    """Rows [row, in], sorted by group, by the weights [group, in, out] of their own, in 8 bits. `gather`: (mesh axes, dim) of shards that are gathered in 8 bits too; None: the weights are complete. `multiply`: the grouped matmul in bfloat16, whose kernel makes the weights' gradient: XLA has none in 8 bits, and would multiply each group by all rows."""
    return _grouped_forward(how, gather, multiply, rows, weights, sizes)[0]


def _grouped_forward(how, gather, multiply, rows, weights, sizes):
    del multiply
    forward, _, static, _ = how
    few, of_rows = quantized(rows, forward, static)
    small, scale = quantized(weights, forward, static)
    if gather:
        small = jax.lax.all_gather(small, gather[0], axis=gather[1], tiled=True)
    y = _ragged(few, small, sizes, 1) * (of_rows * scale)
    return y.astype(rows.dtype), (
        ((few, of_rows), (small, scale)),
        sizes,
        _empty(rows),
        jnp.zeros(weights.shape[gather[1]] if gather else 0, weights.dtype),
    )


def _grouped_backward(how, gather, multiply, residuals, gradient):
    kept, sizes, rows, weights = residuals
    g, of_g, (few, small), (of_rows, scale) = _operands(how, kept, gradient)
    d_rows = _ragged(g, small, sizes, 2) * (of_g * scale)
    wide = [each.astype(gradient.dtype) for each in (few, small, g)]  # exact
    _, transposed = jax.vjp(lambda each: multiply(wide[0], each, sizes), wide[1])
    d_weights = (transposed(wide[2])[0] * (of_g * of_rows)).astype(gradient.dtype)
    if gather:  # summed as those of weights that are gathered before: see `dropless_mlp`
        shard, place = weights.size, jax.lax.axis_index(gather[0])
        d_weights = jax.lax.psum(d_weights, gather[0])
        d_weights = jax.lax.dynamic_slice_in_dim(d_weights, place * shard, shard, gather[1])
    return d_rows.astype(rows.dtype), d_weights.astype(weights.dtype), None


scaled_grouped.defvjp(_grouped_forward, _grouped_backward)

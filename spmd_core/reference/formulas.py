"""The workloads in NumPy float64 with error bounds, independent of every strategy and of JAX.

Each formula rounds where the program may: between its steps, to its dtype. Exported scripts contain
this text.
"""

from collections.abc import Callable, Mapping

import numpy as np

from spmd_core.reference.bounds import (
    FACTOR,
    LARGEST,
    Arithmetic,
    Bounded,
    exact,
    matmul,
    plus,
    rounded,
    through,
    times,
    total,
)
from spmd_core.reference.steps import (
    Rows,
    attended,
    dense,
    heads_of,
    picked,
    relu,
    rms_norm,
    sigmoid,
    silu,
    wrapped,
)
from spmd_core.workloads import Workload

Operands = Mapping[str, np.ndarray]
Formula = Callable[[Operands, Arithmetic, Rows], tuple[Bounded, ...]]


def elementwise(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """2 sin(x) + 1."""
    x = picked(operands["x"], rows)
    if x.dtype == np.int32:
        x = x.astype(np.float32)  # as JAX promotes it, before anything is computed
    return (plus(times(through(np.sin, exact(x), how), 2), Bounded(np.ones(()))),)


def contraction(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """Sum of x over its rows."""
    x = picked(operands["x"], rows, 1)
    if x.dtype == np.int32:
        return (wrapped(x.sum(axis=0, dtype=np.int64)),)
    return (total(exact(x), how, how.partial_sums("rows")),)


def layer(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """sigmoid(x @ weights + bias)."""
    x, weights, bias = operands["x"], operands["weights"], operands["bias"]
    if rows is not None and x.ndim == 1:
        weights, bias = weights[:, rows], bias[rows]
    else:
        x = picked(x, rows)
    product = matmul(exact(np.atleast_2d(x)), exact(weights), how, how.partial_sums("in"))
    z = rounded(plus(rounded(product, how), exact(bias)), how)
    activated = through(sigmoid, z, how).widened(
        (1 / (FACTOR * LARGEST[how.dtype])) ** 2
    )  # 0 where exp(-z) is beyond the dtype
    return (activated.each(lambda array: array.reshape(*x.shape[:-1], -1)),)


def dot(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """Row by row, the dot product of v and u."""
    v, u = picked(operands["v"], rows), picked(operands["u"], rows)
    if v.dtype == np.int32:
        return (wrapped((v.astype(np.int64) * u).sum(axis=1)),)
    return (
        matmul(exact(v[:, None, :]), exact(u[:, :, None]), how, how.partial_sums("k")).each(
            lambda array: array[:, 0, 0]
        ),
    )


def product(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """a @ b."""
    a, b = picked(operands["a"], rows), operands["b"]
    if a.dtype == np.int32:
        return (wrapped(a.astype(np.int64) @ b.astype(np.int64)),)
    return (matmul(exact(a), exact(b), how, how.partial_sums("k")),)


def affine(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """a @ b + c."""
    a, b, c = picked(operands["a"], rows, -2), operands["b"], picked(operands["c"], rows, -2)
    if a.dtype == np.int32:
        return (wrapped(a.astype(np.int64) @ b.astype(np.int64) + c),)
    return (plus(rounded(matmul(exact(a), exact(b), how, how.partial_sums("k")), how), exact(c)),)


def convolve(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """Each row convolved with the kernel, zeros beyond its ends."""
    x, kernel = picked(operands["x"], rows).astype(np.float64), operands["kernel"]
    width = len(kernel)
    padded = np.pad(x, ((0, 0), (width // 2, (width - 1) // 2)))
    windows = Bounded(np.lib.stride_tricks.sliding_window_view(padded, width, axis=1))
    return (
        matmul(windows, exact(kernel[::-1, None]), how, how.partial_sums("width")).each(
            lambda array: array[..., 0]
        ),
    )


def normalize(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """x divided by the sum of its magnitudes along the contracted axes; the sum stays in float32."""
    x = np.moveaxis(operands["x"], how.axes, range(len(how.axes)))
    kept = x.shape[len(how.axes) :]
    sums = total(through(np.abs, exact(x.reshape(-1, *kept))), how)
    shape = [1 if axis in how.axes else size for axis, size in enumerate(operands["x"].shape)]
    sums = through(np.reciprocal, sums.each(lambda array: array.reshape(shape)))
    return (
        times(
            exact(picked(operands["x"], rows)),
            sums.each(lambda array: array if 0 in how.axes else picked(array, rows)),
        ),
    )


def transfer(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """The same."""
    return (exact(picked(operands["x"], rows)),)


def mlp(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """relu(x @ w1 + b1) @ w2 + b2."""
    x, w1, b1, w2, b2 = (exact(operands[name]) for name in ("x", "w1", "b1", "w2", "b2"))
    inside = dense(x.each(lambda array: picked(array, rows)), w1, how, how.partial_sums("in"))
    hidden = through(relu, rounded(plus(inside, b1), how))
    return (plus(dense(hidden, w2, how, how.partial_sums("hidden")), b2),)


def attention(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """Causal attention; `rows` are positions of the sequence: only their queries are computed."""
    query, key, value = (exact(operands[name]) for name in ("query", "key", "value"))
    return (attended(query.each(lambda array: picked(array, rows, 1)), key, value, how, rows),)


def transformer_block(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """Attention on a norm, with a residual; a gated MLP on a norm, with a residual. `rows` are
    positions of the sequence; keys are computed for all positions.
    """
    given = {name: exact(operand) for name, operand in operands.items()}
    normed, x = (
        rms_norm(given["x"], given["attention_scale"], how),
        given["x"].each(lambda array: picked(array, rows, 1)),
    )
    key, value = (heads_of(normed, given[name], how) for name in ("key_weights", "value_weights"))
    query = heads_of(normed.each(lambda array: picked(array, rows, 1)), given["query_weights"], how)
    mixed = rounded(attended(query, key, value, how, rows), how).each(
        lambda array: array.reshape(*array.shape[:2], -1)
    )
    back = given["out_weights"].each(lambda array: array.reshape(-1, array.shape[-1]))
    x = rounded(plus(x, dense(mixed, back, how, how.partial_sums("heads", "head_dim"))), how)
    normed = rms_norm(x, given["mlp_scale"], how)
    gate = dense(normed, given["gate_weights"], how)
    gate = through(silu, gate, how).widened(
        (gate.value / (FACTOR * LARGEST[how.dtype])) ** 2
    )  # as the sigmoid of `layer`
    hidden = rounded(times(gate, dense(normed, given["up_weights"], how)), how)
    return (plus(x, dense(hidden, given["down_weights"], how, how.partial_sums("mlp"))),)


def linear_step(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """Loss, and weights and bias after one step of gradient descent."""
    x, target, weights, bias = (exact(operand) for operand in operands.values())
    error, loss = missed(scaled(x, weights, bias, how, how.partial_sums("in")), target, how)
    gradients = gradient(x, error, how), rounded(total(error, how, how.partial_sums("batch")), how)
    return loss, *descended((weights, bias), gradients, how)


def two_layer_step(operands: Operands, how: Arithmetic, rows: Rows) -> tuple[Bounded, ...]:
    """Loss, and the parameters of both layers after one step of gradient descent."""
    x, target, w1, b1, w2, b2 = (exact(operand) for operand in operands.values())
    activation = through(np.tanh, scaled(x, w1, b1, how, how.partial_sums("in")), how)
    error, loss = missed(scaled(activation, w2, b2, how, how.partial_sums("hidden")), target, how)
    back = rounded(
        times(
            dense(error, w2.each(np.transpose), how, how.partial_sums("out")), len(w2.value) ** -0.5
        ),
        how,
    )
    error1 = rounded(times(back, through(lambda array: 1 - array**2, activation, how)), how)
    sums = (rounded(total(each, how, how.partial_sums("batch")), how) for each in (error1, error))
    gradients = gradient(x, error1, how), next(sums), gradient(activation, error, how), next(sums)
    return loss, *descended((w1, b1, w2, b2), gradients, how)


def scaled(x: Bounded, weights: Bounded, bias: Bounded, how: Arithmetic, parts: int) -> Bounded:
    """x @ weights / sqrt(terms) + bias."""
    return rounded(
        plus(rounded(times(dense(x, weights, how, parts), len(weights.value) ** -0.5), how), bias),
        how,
    )


def missed(prediction: Bounded, target: Bounded, how: Arithmetic) -> tuple[Bounded, Bounded]:
    """The gradient of the loss, (batch, out), and the loss: squares summed over out, their mean
    over the batch."""
    batch = len(target.value)
    difference = rounded(plus(prediction, times(target, -1)), how)
    sums = rounded(
        total(through(np.square, difference, how).each(np.transpose), how, how.partial_sums("out")),
        how,
    )
    return rounded(times(difference, 2 / batch), how), times(
        total(sums, how, how.partial_sums("batch")), 1 / batch
    )


def gradient(x: Bounded, error: Bounded, how: Arithmetic) -> Bounded:
    """Of a layer's weights: x.T @ error / sqrt(terms)."""
    return rounded(
        times(
            dense(x.each(np.transpose), error, how, how.partial_sums("batch")),
            x.value.shape[1] ** -0.5,
        ),
        how,
    )


def descended(
    parameters: tuple[Bounded, ...], gradients: tuple[Bounded, ...], how: Arithmetic
) -> tuple[Bounded, ...]:
    """The parameters, moved against their gradients."""
    return tuple(
        plus(parameter, rounded(times(change, -how.rate), how))
        for parameter, change in zip(parameters, gradients, strict=True)
    )


FORMULAS: dict[str, Formula] = {
    "elementwise": elementwise,
    "contraction": contraction,
    "layer": layer,
    "dot": dot,
    "product": product,
    "matmul": affine,
    "convolve": convolve,
    "normalize": normalize,
    "transfer": transfer,
    "mlp": mlp,
    "attention": attention,
    "transformer_block": transformer_block,
    "linear_step": linear_step,
    "two_layer_step": two_layer_step,
}


def has_formula(what: Workload) -> bool:
    """Whether its reference is a NumPy formula; otherwise it is its own function in float64."""
    return what.source is None and (what.program.function or what.name) in FORMULAS

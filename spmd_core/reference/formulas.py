"""What the workloads compute, in NumPy float64: apart from every strategy, and from JAX."""

from collections.abc import Callable, Mapping

import numpy as np

from spmd_core.workloads.workload import Workload

Operands = Mapping[str, np.ndarray]
Rows = np.ndarray | None  # indices along the dim that the workload samples; None: all of them
Formula = Callable[[Workload, Operands, Rows], tuple[np.ndarray, ...]]


def f64(array: np.ndarray) -> np.ndarray:
    """An array in float64; bfloat16 and float16 have an exact value there."""
    return array.astype(np.float64)


def _picked(array: np.ndarray, rows: Rows, axis: int = 0) -> np.ndarray:
    return array if rows is None else array[(slice(None),) * axis + (rows,)]  # np.take copies all of an array that is not contiguous


def elementwise(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """2 sin(x) + 1."""
    x = _picked(operands["x"], rows)
    if x.dtype == np.int32:
        x = x.astype(np.float32)  # as JAX promotes it, before anything is computed
    return (2 * np.sin(f64(x)) + 1,)


def contraction(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """Sum of x over its rows."""
    x = _picked(operands["x"], rows, 1)
    return (_wrapped(x.sum(axis=0, dtype=np.int64)) if x.dtype == np.int32 else x.sum(axis=0, dtype=np.float64),)


def _wrapped(whole: np.ndarray) -> np.ndarray:
    """int64 sums as int32 arithmetic gives them, which wraps."""
    return whole.astype(np.int32).astype(np.float64)


def layer(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """sigmoid(x @ weights + bias)."""
    x, weights, bias = operands["x"], operands["weights"], operands["bias"]
    if rows is not None and x.ndim == 1:
        weights, bias = weights[:, rows], bias[rows]
    else:
        x = _picked(x, rows)
    return (1 / (1 + np.exp(-(f64(x) @ f64(weights) + f64(bias)))),)


def dot(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """Row by row, the dot product of v and u."""
    v, u = _picked(operands["v"], rows), _picked(operands["u"], rows)
    if v.dtype == np.int32:
        return (_wrapped((v.astype(np.int64) * u).sum(axis=1)),)
    return ((f64(v) * f64(u)).sum(axis=1),)


def matmul(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """a @ b + c."""
    a, b, c = _picked(operands["a"], rows, -2), operands["b"], _picked(operands["c"], rows, -2)
    if a.dtype == np.int32:
        return (_wrapped(a.astype(np.int64) @ b.astype(np.int64) + c),)
    return (f64(a) @ f64(b) + f64(c),)


def convolve(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """Each row convolved with the kernel, zeros beyond its ends."""
    kernel = f64(operands["kernel"])
    return (np.stack([np.convolve(row, kernel, mode="same") for row in f64(_picked(operands["x"], rows))]),)


def normalize(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """x over the sum of its magnitudes along the dims that are summed over."""
    x = f64(operands["x"])
    axes = tuple(position for position, dim in enumerate(what.operands[0].dims[: x.ndim]) if dim in what.contracted)
    return (_picked(x / np.abs(x).sum(axis=axes, keepdims=True), rows),)


def transfer(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """The same."""
    return (f64(_picked(operands["x"], rows)),)


def mlp(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """relu(x @ w1 + b1) @ w2 + b2."""
    x, w1, b1, w2, b2 = (f64(operands[name]) for name in ("x", "w1", "b1", "w2", "b2"))
    return (np.maximum(_picked(x, rows) @ w1 + b1, 0) @ w2 + b2,)


def attention(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """Causal attention; `rows` are places of the sequence, whose queries alone are computed."""
    query, key, value = (operands[name] for name in ("query", "key", "value"))
    return (_attended(f64(_picked(query, rows, 1)), f64(key), f64(value), rows),)


def _attended(query: np.ndarray, key: np.ndarray, value: np.ndarray, rows: Rows) -> np.ndarray:
    """Of queries at the places `rows` of each sequence. One head at a time: scores are the square of the sequence."""
    batch, _, heads, head_dim = query.shape
    places = np.arange(key.shape[1])
    seen = (places if rows is None else rows)[:, None] >= places
    out = np.empty_like(query)
    for sequence in range(batch):
        for head in range(heads):
            shared = head * key.shape[2] // heads
            scores = np.where(seen, query[sequence, :, head] @ key[sequence, :, shared].T / np.sqrt(head_dim), -np.inf)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            out[sequence, :, head] = weights / weights.sum(axis=1, keepdims=True) @ value[sequence, :, shared]
    return out


def transformer_block(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """Attention on a norm, added; two gated layers on a norm, added. `rows` are places of the sequence; keys are computed of all."""
    given = {name: f64(operand) for name, operand in operands.items()}
    normed, x = _rms_norm(given["x"], given["attention_scale"]), _picked(given["x"], rows, 1)
    key, value = (np.tensordot(normed, given[name], 1) for name in ("key_weights", "value_weights"))
    query = np.tensordot(_picked(normed, rows, 1), given["query_weights"], 1)
    x = x + np.tensordot(_attended(query, key, value, rows), given["out_weights"], 2)
    normed = _rms_norm(x, given["mlp_scale"])
    gate = normed @ given["gate_weights"]
    return (x + (gate / (1 + np.exp(-gate)) * (normed @ given["up_weights"])) @ given["down_weights"],)


def _rms_norm(x: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-6) * scale


def linear_step(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """Loss, and weights and bias after one step of gradient descent."""
    x, target, *parameters = (f64(operands[array.name]) for array in what.operands)
    weights, bias = parameters
    scale = np.sqrt(weights.shape[0])
    difference = x @ weights / scale + bias - target
    error = 2 * difference / len(x)
    return _loss(difference), *_descended(what, parameters, (x.T @ error / scale, error.sum(axis=0)))


def two_layer_step(what: Workload, operands: Operands, rows: Rows) -> tuple[np.ndarray, ...]:
    """Loss, and the parameters of both layers after one step of gradient descent."""
    x, target, *parameters = (f64(operands[array.name]) for array in what.operands)
    w1, b1, w2, b2 = parameters
    scale1, scale2 = np.sqrt(w1.shape[0]), np.sqrt(w2.shape[0])
    activation = np.tanh(x @ w1 / scale1 + b1)
    difference = activation @ w2 / scale2 + b2 - target
    error = 2 * difference / len(x)
    error1 = error @ w2.T / scale2 * (1 - activation**2)
    gradients = x.T @ error1 / scale1, error1.sum(axis=0), activation.T @ error / scale2, error.sum(axis=0)
    return _loss(difference), *_descended(what, parameters, gradients)


def _loss(difference: np.ndarray) -> np.ndarray:
    return np.asarray((difference**2).sum(axis=1).mean())


def _descended(what: Workload, parameters: list[np.ndarray], gradients: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    rate = what.program.constants["LEARNING_RATE"]
    return [parameter - rate * gradient for parameter, gradient in zip(parameters, gradients, strict=True)]


FORMULAS: dict[str, Formula] = {
    formula.__name__: formula
    for formula in (elementwise, contraction, layer, dot, matmul, convolve, normalize, transfer, mlp, attention, transformer_block, linear_step,
                    two_layer_step)
}


def has_formula(what: Workload) -> bool:
    """Whether its right answer is a formula of NumPy; else it is its own function in float64."""
    return what.source is None and (what.program.function or what.name) in FORMULAS

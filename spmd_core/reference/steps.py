"""The building blocks of formulas, in NumPy float64 with bounds. Exported scripts contain it."""

import numpy as np

from spmd_core.reference.bounds import (
    EPS,
    FACTOR,
    FUNCTION,
    Arithmetic,
    Bounded,
    matmul,
    rounded,
    through,
    times,
    total,
)

Rows = np.ndarray | None  # indices along the dim that the workload samples; None: all of them


def picked(array: np.ndarray, rows: Rows, axis: int = 0) -> np.ndarray:
    """The rows of an operand that are computed, along `axis`, which may count from the last one."""
    # np.take copies all of an array that is not contiguous
    return array if rows is None else array[(slice(None),) * (axis % array.ndim) + (rows,)]


def wrapped(integers: np.ndarray) -> Bounded:
    """int64 sums wrapped to int32; exact."""
    return Bounded(integers.astype(np.int32).astype(np.float64))


def sigmoid(z: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-z))."""
    return 1 / (1 + np.exp(-z))


def relu(z: np.ndarray) -> np.ndarray:
    """max(z, 0)."""
    return np.maximum(z, 0)


def dense(x: Bounded, weights: Bounded, how: Arithmetic, parts: int = 1) -> Bounded:
    """x @ weights, rounded."""
    return rounded(matmul(x, weights, how, parts), how)


def attended(query: Bounded, key: Bounded, value: Bounded, how: Arithmetic, rows: Rows) -> Bounded:
    """Attention of the queries at positions `rows` of each sequence. One head at a time: scores
    grow with the square of the sequence.
    """
    batch, _, heads, head_dim = query.value.shape
    places = np.arange(key.value.shape[1])
    seen = ((places if rows is None else rows)[:, None] >= places) | (not how.causal)
    out, spread = np.empty_like(query.value), np.empty_like(query.value)
    for sequence in range(batch):
        for head in range(heads):
            shared = head * key.value.shape[2] // heads
            keys, values = (
                one.each(lambda array, at=shared, row=sequence: array[row, :, at])
                for one in (key, value)
            )
            queries = query.each(lambda array, at=head, row=sequence: array[row, :, at])
            scores = times(matmul(queries, keys.each(np.transpose), how), head_dim**-0.5)
            mixed = mean_values(scores, values, seen, how)
            out[sequence, :, head], spread[sequence, :, head] = (
                mixed.value,
                np.sqrt(mixed.squared_spread),
            )
    return Bounded(out, spread)


def mean_values(scores: Bounded, value: Bounded, seen: np.ndarray, how: Arithmetic) -> Bounded:
    """softmax(scores) @ value over the positions that each query attends to, (queries, keys) by
    (keys, head_dim).

    A score that moves by d moves the mean by weight (value - mean) d; large changes of scores
    change weights exponentially.
    """
    scores = through(lambda array: array, scores, Arithmetic("float32")).widened(
        (FUNCTION * EPS["float32"]) ** 2
    )
    weights = np.exp(
        np.where(
            seen,
            scores.value - np.where(seen, scores.value, -np.inf).max(axis=1, keepdims=True),
            -np.inf,
        )
    )
    weights /= weights.sum(axis=1, keepdims=True)
    mean = matmul(rounded(Bounded(weights), how), value, how)
    moved = (weights * np.expm1(FACTOR * np.sqrt(scores.squared_spread)) / FACTOR) ** 2
    by_scores = (
        moved @ value.value**2
        - 2 * mean.value * (moved @ value.value)
        + moved.sum(axis=1, keepdims=True) * mean.value**2
    )
    return mean.widened(np.maximum(by_scores, 0))


def heads_of(x: Bounded, weights: Bounded, how: Arithmetic) -> Bounded:
    """From embed to heads and head_dim."""
    flat = dense(x, weights.each(lambda array: array.reshape(len(array), -1)), how)
    return flat.each(lambda array: array.reshape(*array.shape[:-1], *weights.value.shape[1:]))


def silu(z: np.ndarray) -> np.ndarray:
    """z sigmoid(z)."""
    return z / (1 + np.exp(-z))


def rms_norm(x: Bounded, scale: Bounded, how: Arithmetic) -> Bounded:
    """x divided by the root of its mean square, in float32; then rounded and scaled."""
    wide = Arithmetic("float32")
    squares = through(np.square, x, wide).each(lambda array: np.moveaxis(array, -1, 0))
    mean = times(total(squares, wide), 1 / x.value.shape[-1]).each(lambda array: array[..., None])
    root = through(lambda array: 1 / np.sqrt(np.maximum(array, 0) + 1e-6), mean, wide)
    return rounded(times(rounded(times(x, root), how), scale), how)

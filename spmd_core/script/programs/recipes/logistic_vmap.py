"""Logistic regression: a prediction for one sample, for a batch by hand, and for a batch by vmap."""

import jax
import jax.numpy as jnp
import numpy as np

SAMPLES = 3

rng = np.random.default_rng(0)
w, X = rng.normal(size=2), rng.normal(size=(SAMPLES, 2))


def sigmoid(x):
    return 0.5 * (jnp.tanh(x / 2.0) + 1)


def predict_single(x):
    """The probability for one sample of shape (2,)."""
    return sigmoid(jnp.dot(w, x))


def predict_batch(X):
    """The probabilities for samples of shape (SAMPLES, 2): the operands have to change places."""
    return sigmoid(jnp.dot(X, w))


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    try:
        words = f"no error: {predict_single(X)}"
    except TypeError as error:
        words = f"TypeError: {error}"
    exact = 1 / (1 + np.exp(-(X @ w)))
    mapped = jax.vmap(predict_single)(X)
    return {
        "one_sample": predict_single(X[0]),
        "one function on a batch": words,
        "by_hand": predict_batch(X),
        "vmap": mapped,
        "largest error against float64": f"{np.abs(np.asarray(mapped) - exact).max():.1e}",
    }

"""Which outputs continue an argument, so that donating it saves its bytes, and which only look like
it: gradients, updates, metrics, what is returned as it came.
"""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import optax
import pytest

from bench.exported import written
from spmd_core.engine.exported import continued, describe
from spmd_core.workloads import Program, findings

pytestmark = pytest.mark.this_python
W = jax.ShapeDtypeStruct((256, 256), "float32")
X = jax.ShapeDtypeStruct((8, 256), "float32")
PARAMS = {"up": W, "down": W}
SCALAR = jax.ShapeDtypeStruct((), "float32")
CACHE = {"k": jax.ShapeDtypeStruct((8, 64, 256), "float32")}
LAYERED = {"k": jax.ShapeDtypeStruct((4, 8, 64, 256), "float32")}
RATE = optax.cosine_decay_schedule(1e-3, 100)


def loss(params, x, decay=0.0):
    """Mean square, with weight decay."""
    y = jax.nn.relu(x @ params["up"]) @ params["down"]
    return jnp.mean(y**2) + decay * sum(jnp.sum(w**2) for w in params.values())


def by_optax(optimizer, returned=lambda params, state, updates, grads: (params, state)):
    """A step of an optimizer, and its arguments."""

    def step(params, opt_state, x):
        grads = jax.grad(loss)(params, x)
        updates, state = optimizer.update(grads, opt_state, params)
        return returned(optax.apply_updates(params, updates), state, updates, grads)

    return step, {"params": PARAMS, "opt_state": jax.eval_shape(optimizer.init, PARAMS), "x": X}


def by_hand(update):
    """A step that changes parameters by their gradients, and a number."""
    step = lambda params, x, rate: jax.tree.map(  # noqa: E731
        lambda p, g: update(p, g, rate), params, jax.grad(loss)(params, x)
    )
    return step, {"params": PARAMS, "x": X, "rate": SCALAR}


def on(step, **arguments):
    """A step of named arguments."""
    return step, arguments


def scanned(params, x):
    """Three steps in one program."""
    step = lambda p, _: (jax.tree.map(lambda w, g: w - g, p, jax.grad(loss)(p, x)), None)  # noqa: E731
    return jax.lax.scan(step, params, None, length=3)[0]


def accumulated(params, acc, x):
    """The gradients of a microbatch, added to others."""
    return jax.tree.map(jnp.add, acc, jax.grad(loss)(params, x))


def decoded(params, cache, x):
    """A token with its cache."""
    keys = cache["k"].at[:, 3].set(x @ params["up"])
    return jnp.einsum("bd,bsd->bs", x, keys), {"k": keys}


def decoded_by_layers(params, cache, x):
    """A token through layers one after another, each with its keys."""

    def layer(x, keys):
        keys = jax.lax.dynamic_update_slice(keys, x[:, None], (0, 3, 0))
        return x + jnp.einsum("bsd->bd", keys) @ params["up"], keys

    return jax.lax.scan(layer, x, cache["k"])[0], {"k": jax.lax.scan(layer, x, cache["k"])[1]}


def rolled(params, cache, x):
    """A cache that forgets its oldest token."""
    keys = jnp.concatenate([cache["k"][:, 1:], (x @ params["up"])[:, None]], 1)
    return keys.sum((1, 2)), {"k": keys}


def in_bfloat16(params, x):
    """Gradients of parameters that are rounded before they are used."""
    return jax.grad(lambda p: loss(jax.tree.map(lambda w: w.astype("bfloat16"), p), x))(params)


def skipped(params, x):
    """A step that keeps its parameters where gradients are not finite."""
    grads = jax.grad(loss)(params, x)
    is_finite = jnp.isfinite(optax.tree.norm(grads))
    return jax.tree.map(lambda p, g: jnp.where(is_finite, p - 0.1 * g, p), params, grads)


AVERAGE = lambda params, ema, decay: jax.tree.map(  # noqa: E731
    lambda a, p: decay * a + (1 - decay) * p, ema, params
)
# What is continued, by the first part of its path
UPDATES = {
    "sgd": (by_hand(lambda p, g, rate: p - 0.1 * g), {"params"}),
    "sgd, a rate that is given": (by_hand(lambda p, g, rate: p - rate * g), {"params"}),
    "weight decay first": (by_hand(lambda p, g, rate: 0.99 * p - rate * g), {"params"}),
    "weight decay by a rate": (by_hand(lambda p, g, rate: p * (1 - 0.1 * rate) - g), {"params"}),
    "clamped": (by_hand(lambda p, g, rate: jnp.clip(p - g, -1, 1)), {"params"}),
    "adam": (by_optax(optax.adam(1e-3)), {"params", "opt_state"}),
    "adamw, a schedule": (by_optax(optax.adamw(RATE)), {"params", "opt_state"}),
    "adamw, hyperparameters in its state": (
        by_optax(optax.inject_hyperparams(optax.adamw)(learning_rate=1e-3)),
        {"params", "opt_state"},
    ),
    "lion": (by_optax(optax.lion(1e-4)), {"params", "opt_state"}),
    "momentum": (by_optax(optax.sgd(0.1, 0.9, nesterov=True)), {"params", "opt_state"}),
    "muon": (by_optax(optax.contrib.muon(1e-3)), {"params", "opt_state"}),
    "clipped": (
        by_optax(optax.chain(optax.clip_by_global_norm(1.0), optax.adam(1e-3))),
        {"params", "opt_state"},
    ),
    "every fourth": (
        by_optax(optax.MultiSteps(optax.adam(1e-3), 4).gradient_transformation()),
        {"params", "opt_state"},
    ),
    "gradients beside": (
        by_optax(optax.adam(1e-3), lambda params, state, updates, grads: (grads, params, state)),
        {"params", "opt_state"},
    ),
    "updates": (
        by_optax(optax.adamw(1e-3), lambda params, state, updates, grads: (updates, state)),
        {"opt_state"},
    ),
    "scaled as a whole": (by_hand(lambda p, g, rate: rate * (p - 0.1 * g)), {"params"}),
    "scaled alone": (
        on(lambda params, x: {"up": params["up"] * jnp.mean(x)}, params=PARAMS, x=X),
        {"params"},
    ),
    "an array that is an argument itself": (
        on(lambda w, x: w - jax.grad(lambda w: jnp.sum((x @ w) ** 2))(w), w=W, x=X),
        {"w"},
    ),
    "parameters of another nesting": (
        on(
            lambda state, x: by_hand(lambda p, g, rate: p - rate * g)[0](state["params"], x, 0.1),
            state={"params": PARAMS},
            x=X,
        ),
        {"state"},
    ),
    "scanned": (on(scanned, params=PARAMS, x=X), {"params"}),
    "skipped": (on(skipped, params=PARAMS, x=X), {"params"}),
    "accumulated": (on(accumulated, params=PARAMS, acc=PARAMS, x=X), {"acc"}),
    "an average": (
        on(lambda params, ema: AVERAGE(params, ema, 0.999), params=PARAMS, ema=PARAMS),
        {"ema"},
    ),
    "an average, a given decay": (on(AVERAGE, params=PARAMS, ema=PARAMS, decay=SCALAR), {"ema"}),
    "a cache": (on(decoded, params=PARAMS, cache=CACHE, x=X), {"cache"}),
    "a cache of layers": (on(decoded_by_layers, params=PARAMS, cache=LAYERED, x=X), {"cache"}),
    "a rolling cache": (on(rolled, params=PARAMS, cache=CACHE, x=X), {"cache"}),
    "a checkpointed loss": (
        on(
            lambda params, x: jax.tree.map(
                jnp.subtract, params, jax.grad(jax.checkpoint(loss))(params, x)
            ),
            params=PARAMS,
            x=X,
        ),
        {"params"},
    ),
}
COMPLEX = {"w": jax.ShapeDtypeStruct((256, 256), "complex64")}
UPDATES["complex"] = (
    on(lambda params, x: {"w": 0.9 * params["w"] + x.T @ x}, params=COMPLEX, x=X),
    set(),  # a complex factor is not read
)
RIGHT = {
    "gradients": on(jax.grad(loss), params=PARAMS, x=X),
    "value and gradients": on(jax.value_and_grad(loss), params=PARAMS, x=X),
    "gradients with weight decay": on(
        jax.grad(lambda params, x: loss(params, x, 1e-2)), params=PARAMS, x=X
    ),
    "gradients of a ridge": on(
        jax.grad(lambda params, x: loss(params, x, 0.5)), params=PARAMS, x=X
    ),
    "gradients with a given decay": on(
        lambda params, x, decay: jax.grad(loss)(params, x, decay), params=PARAMS, x=X, decay=SCALAR
    ),
    "gradients by hand": on(
        lambda params, x: {
            "up": x.T @ (x @ params["up"]) + 0.01 * params["up"],
            "down": params["up"] @ params["down"],
        },
        params=PARAMS,
        x=X,
    ),
    "gradients in bfloat16": on(in_bfloat16, params=PARAMS, x=X),
    "gradients, checkpointed": on(jax.grad(jax.checkpoint(loss)), params=PARAMS, x=X),
    "gradients of microbatches": on(
        lambda params, xs: jax.lax.scan(
            lambda sum, x: (jax.tree.map(jnp.add, sum, jax.grad(loss)(params, x)), None),
            jax.tree.map(jnp.zeros_like, params),
            xs,
        )[0],
        params=PARAMS,
        xs=jax.ShapeDtypeStruct((4, 8, 256), "float32"),
    ),
    "a Hessian times a vector": on(
        lambda params, v, x: jax.jvp(lambda p: jax.grad(loss)(p, x), (params,), (v,))[1],
        params=PARAMS,
        v=PARAMS,
        x=X,
    ),
    "gradients of another nesting, with a given decay": on(
        lambda state, x, decay: jax.tree.map(
            lambda p, g: g + decay * p, state["params"], jax.grad(loss)(state["params"], x)
        ),
        state={"params": PARAMS},
        x=X,
        decay=SCALAR,
    ),
    "a residual": on(lambda x, w: x + jnp.tanh(x @ w), x=W, w=W),
    "metrics": on(
        lambda params, x: {"loss": loss(params, x), "norm": optax.tree.norm(params)},
        params=PARAMS,
        x=X,
    ),
    "statistics of each": on(
        lambda params, x: jax.tree.map(lambda w: w @ w.T, params), params=PARAMS, x=X
    ),
    "an evaluation that returns its state": on(
        lambda params, x: (params, loss(params, x)), params=PARAMS, x=X
    ),
    "old and new": on(
        lambda params: (params, jax.tree.map(lambda w: w + 1, params)), params=PARAMS
    ),
    "a cast": on(
        lambda params: jax.tree.map(lambda w: w.astype("bfloat16"), params), params=PARAMS
    ),
    "reading a cache": on(
        lambda cache, x: jnp.einsum("bd,bsd->bs", x, cache["k"]), cache=CACHE, x=X
    ),
    "masks": on(lambda params: jax.tree.map(lambda w: jnp.sign(w), params), params=PARAMS),
}


def not_donated(given):
    """The arguments that are found to be replaced and not donated."""
    step, arguments = given
    exported = describe.read(written(step, arguments, platforms=("cpu",)))
    described, _ = describe.describe(exported)
    found = findings(Program(described, described.mesh))
    return {each.path for each in found if each.kind == "missing_donation"}


@pytest.mark.parametrize("name", UPDATES)
def test_what_an_output_continues_is_to_be_donated(name):
    given, expected = UPDATES[name]
    assert not_donated(given) == expected


@pytest.mark.parametrize("name", RIGHT)
def test_what_stays_in_use_is_not(name):
    assert not_donated(RIGHT[name]) == set()


def test_the_name_of_a_location_without_one_is_not_read():
    """Before JAX 0.10.1 that ends the process; `python -m bench.versions` explains a step there."""

    class Unnamed:
        def is_a_name(self):
            return False

        @property
        def name_str(self):
            raise AssertionError

    assert continued._name(SimpleNamespace(location=Unnamed())) == ""

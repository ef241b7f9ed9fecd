"""Findings of 20 clean steps that no rule was written with: none is false.

    python -m bench.fresh_findings [--part K/N]

Idioms of Flax (linen and NNX), Equinox and Optax beside those of `bench.clean_findings`: recurrent
cells, tied embeddings, statistics of batches, averages, frozen weights, two optimizers in a step,
accumulated and returned gradients, evaluation. A false one is mended in the rule, and this bench is
then no longer fresh: write new steps.
"""

from collections.abc import Callable
from typing import Any

from bench.clean_findings import WIDTH, false_findings, steps  # isort: skip  # sets XLA's flags

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn, nnx
from flax.training.train_state import TrainState
from jax.sharding import NamedSharding, PartitionSpec as P
from optax import contrib

from bench.exported import written
from bench.figures import Asked, Figures, measure, of_part

ROWS, TOKENS = steps._ROWS, steps._TOKENS
IDS = jax.ShapeDtypeStruct((32, 16), jnp.int32)
VOCABULARY = 1024
ADAM = optax.adam(1e-3)
PARAMS = {"up": steps._x(WIDTH, 4 * WIDTH), "down": steps._x(4 * WIDTH, WIDTH)}


def mlp(params: Any, x: Any) -> Any:
    """Two matrices, and a residual."""
    return x + jax.nn.silu(x @ params["up"]) @ params["down"]


def loss(params: Any, x: Any, decay: float = 0.0) -> Any:
    """Mean square, with weight decay."""
    squares = sum(jnp.sum(each**2) for each in params.values())
    return jnp.mean(mlp(params, x) ** 2) + decay * squares


def placed(step: Any, arguments: Any, donated: tuple[str, ...] = ()) -> bytes:
    """A step whose state is sharded by its first dim that divides."""
    return written(step, steps._placed(arguments), donated=donated)


def trained(optimizer: Any) -> bytes:
    """A step of an optimizer on the two matrices."""
    return steps._trained(loss, PARAMS, ROWS, optimizer)


class Recurrent(nn.Module):
    """A GRU over tokens."""

    @nn.compact
    def __call__(self, x: Any) -> Any:  # noqa: D102
        return nn.Dense(WIDTH)(nn.RNN(nn.GRUCell(WIDTH))(x))


class Tied(nn.Module):
    """A language model whose head is its table, with layers that are scanned and recomputed."""

    @nn.compact
    def __call__(self, ids: Any) -> Any:  # noqa: D102
        table = nn.Embed(VOCABULARY, WIDTH)
        layer = nn.scan(
            nn.remat(Layer), variable_axes={"params": 0}, split_rngs={"params": True}, length=3
        )
        x, _ = layer()(table(ids), None)
        return table.attend(nn.RMSNorm()(x))


class Layer(nn.Module):
    """A layer with its carry."""

    @nn.compact
    def __call__(self, x: Any, _: Any) -> Any:  # noqa: D102
        return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x)))), None


class Normed(nn.Module):
    """A layer with statistics of batches and dropout."""

    @nn.compact
    def __call__(self, x: Any) -> Any:  # noqa: D102
        x = nn.BatchNorm(use_running_average=False, momentum=0.9)(nn.Dense(4 * WIDTH)(x))
        return nn.Dense(WIDTH)(nn.Dropout(0.1, deterministic=False)(nn.relu(x)))


class Residual(nn.Module):
    """Convolutions with group norms, and the mean of all places. Not `is_kept`, the gradient of the
    second loses the batch: of 64 images, collectives take 48 MiB in place of 9, temporaries 60 MiB
    in place of 18.
    """

    is_kept: bool = True

    @nn.compact
    def __call__(self, x: Any) -> Any:  # noqa: D102
        x = self.rows(nn.Conv(256, (3, 3))(x))
        x = x + self.rows(nn.Conv(256, (3, 3))(self.rows(nn.swish(nn.GroupNorm(32)(x)))))
        return nn.Dense(512)(self.rows(self.rows(x).mean((1, 2))))

    def rows(self, x: Any) -> Any:
        """The value, sharded by its rows."""
        rows = NamedSharding(steps.MESH, P("fsdp", *[None] * (x.ndim - 1)))
        return jax.lax.with_sharding_constraint(x, rows) if self.is_kept else x


def convolutions(is_kept: bool = True) -> bytes:
    """A step of adam's on images."""
    return steps._linen(Residual(is_kept), steps._x(16, 16, 16, 64), ADAM)


class Cell(eqx.Module):
    """A GRU cell in a scan."""

    cell: eqx.nn.GRUCell

    def __init__(self, key: Any) -> None:
        self.cell = eqx.nn.GRUCell(WIDTH, WIDTH, key=key)

    def __call__(self, xs: Any) -> Any:  # noqa: D102
        step = lambda carry, x: (self.cell(x, carry), None)  # noqa: E731
        return jax.lax.scan(step, jnp.zeros(WIDTH), xs)[0]


class Adapted(eqx.Module):
    """A frozen matrix with a trained one of low rank."""

    frozen: eqx.nn.Linear
    a: Any
    b: Any

    def __init__(self, key: Any) -> None:
        self.frozen = eqx.nn.Linear(WIDTH, WIDTH, key=key)
        self.a, self.b = jnp.zeros((16, WIDTH)), jnp.zeros((WIDTH, 16))

    def __call__(self, x: Any) -> Any:  # noqa: D102
        y = jax.lax.stop_gradient(self.frozen.weight) @ x
        return y + self.b @ (self.a @ x)


class Transformer(nnx.Module):
    """Attention behind a table."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.table = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs)
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(8, WIDTH, decode=False, rngs=rngs)

    def __call__(self, ids: Any) -> Any:  # noqa: D102
        x = self.table(ids)
        return x + self.attention(self.norm(x))


def train_state() -> bytes:
    """The state of flax.training, as one argument."""
    module: Any = Layer()
    call = lambda params, x: module.apply(params, x, None)[0]  # noqa: E731
    params = jax.eval_shape(lambda: module.init(jax.random.key(0), jnp.ones(TOKENS.shape), None))
    state = jax.eval_shape(lambda p: TrainState.create(apply_fn=call, params=p, tx=ADAM), params)

    def step(state: Any, batch: Any) -> Any:
        of = lambda params: jnp.mean(state.apply_fn(params, batch) ** 2)  # noqa: E731
        value, gradients = jax.value_and_grad(of)(state.params)
        return state.apply_gradients(grads=gradients), value

    return placed(step, {"state": state, "batch": TOKENS}, ("state",))


def statistics() -> bytes:
    """Parameters, statistics and a key for dropout, all of which a step replaces."""
    module: Any = Normed()
    keys = {"params": jax.random.key(0), "dropout": jax.random.key(1)}
    given: Any = jax.eval_shape(lambda: module.init(keys, jnp.ones(ROWS.shape)))
    state = {
        "params": given["params"],
        "batch_stats": given["batch_stats"],
        "opt_state": jax.eval_shape(ADAM.init, given["params"]),
        "seed": jax.ShapeDtypeStruct((2,), jnp.uint32),
    }

    def step(state: Any, batch: Any) -> Any:
        key, following = jax.random.split(jax.random.wrap_key_data(state["seed"]))

        def of(params: Any) -> Any:
            variables = {"params": params, "batch_stats": state["batch_stats"]}
            rngs = {"dropout": key}
            y, new = module.apply(variables, batch, mutable="batch_stats", rngs=rngs)
            return jnp.mean(y**2), new["batch_stats"]

        (value, new), gradients = jax.value_and_grad(of, has_aux=True)(state["params"])
        updates, kept = ADAM.update(gradients, state["opt_state"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        seed = jax.random.key_data(following)
        return {"params": params, "batch_stats": new, "opt_state": kept, "seed": seed}, value

    return placed(step, {"state": state, "batch": ROWS}, ("state",))


def averaged() -> bytes:
    """Parameters with an average that follows them."""
    kept = jax.eval_shape(ADAM.init, PARAMS)

    def step(params: Any, ema_params: Any, opt_state: Any, batch: Any) -> Any:
        updates, opt_state = ADAM.update(jax.grad(loss)(params, batch), opt_state, params)
        params = optax.apply_updates(params, updates)
        return params, optax.incremental_update(params, ema_params, 1e-3), opt_state

    given = {"params": PARAMS, "ema_params": PARAMS, "opt_state": kept, "batch": ROWS}
    return placed(step, given, ("params", "ema_params", "opt_state"))


def adversarial() -> bytes:
    """Two models and their optimizers in one step."""
    kept = jax.eval_shape(ADAM.init, PARAMS)

    def step(generator: Any, critic: Any, opt_g: Any, opt_c: Any, batch: Any) -> Any:
        score = lambda g, c: jnp.mean(mlp(c, mlp(g, batch)))  # noqa: E731
        down, up = jax.grad(score, (0, 1))(generator, critic)
        new_g, opt_g = ADAM.update(down, opt_g, generator)
        new_c, opt_c = ADAM.update(jax.tree.map(jnp.negative, up), opt_c, critic)
        return {
            "generator": optax.apply_updates(generator, new_g),
            "critic": optax.apply_updates(critic, new_c),
            "opt_g": opt_g,
            "opt_c": opt_c,
        }

    given = {"generator": PARAMS, "critic": PARAMS, "opt_g": kept, "opt_c": kept, "batch": ROWS}
    return placed(step, given, ("generator", "critic", "opt_g", "opt_c"))


def distilled() -> bytes:
    """A student beside its teacher."""
    kept = jax.eval_shape(ADAM.init, PARAMS)

    def step(params: Any, teacher: Any, opt_state: Any, batch: Any) -> Any:
        of = lambda params: jnp.mean((mlp(params, batch) - mlp(teacher, batch)) ** 2)  # noqa: E731
        updates, opt_state = ADAM.update(jax.grad(of)(params), opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    given = {"params": PARAMS, "teacher": PARAMS, "opt_state": kept, "batch": ROWS}
    return placed(step, given, ("params", "opt_state"))


def nnx_step(optimizer: Any) -> bytes:
    """A model of NNX over token ids."""
    graph, state = nnx.split(nnx.eval_shape(lambda: Transformer(nnx.Rngs(0))))

    def of(params: Any, ids: Any) -> Any:
        now = jax.tree.map(lambda leaf: leaf, state)
        nnx.replace_by_pure_dict(now, params)
        return (nnx.merge(graph, now)(ids) ** 2).mean()

    return steps._trained(of, nnx.to_pure_dict(state), IDS, optimizer)


def tied() -> bytes:
    """Cross-entropy of the next token."""
    module: Any = Tied()
    params = jax.eval_shape(lambda: module.init(jax.random.key(0), jnp.ones(IDS.shape, int)))

    def of(params: Any, ids: Any) -> Any:
        logits = module.apply(params, ids)
        return optax.softmax_cross_entropy_with_integer_labels(logits, ids).mean()

    return steps._trained(of, params, IDS, optax.adamw(optax.cosine_decay_schedule(1e-3, 100)))


FEW = optax.MultiSteps(ADAM, 4).gradient_transformation()
PARTS = optax.partition({"slow": optax.sgd(0.1), "fast": ADAM}, {"up": "slow", "down": "fast"})
FRESH: dict[str, Callable[[], bytes]] = {
    "linen, GRU": lambda: steps._linen(Recurrent(), TOKENS, ADAM),
    "linen, tied table, scan, remat": tied,
    "linen, convolutions": convolutions,
    "linen, statistics and dropout": statistics,
    "flax.training": train_state,
    "optax, every fourth": lambda: trained(FEW),
    "optax, injected": lambda: trained(optax.inject_hyperparams(optax.adamw)(1e-3)),
    "optax, muon": lambda: trained(contrib.muon(1e-3)),
    "optax, lamb": lambda: trained(optax.lamb(1e-3)),
    "optax, by parts": lambda: trained(PARTS),
    "optax, noisy, skipped": lambda: trained(optax.apply_if_finite(optax.noisy_sgd(0.1), 5)),
    "optax, schedule free": lambda: trained(contrib.schedule_free_sgd(0.1)),
    "an average": averaged,
    "two models": adversarial,
    "a teacher": distilled,
    "equinox, GRU": lambda: steps._equinox(Cell, TOKENS, ADAM),
    "equinox, low rank": lambda: steps._equinox(Adapted, ROWS, ADAM),
    "nnx, attention": lambda: nnx_step(optax.lion(1e-4)),
    "gradients with decay": lambda: placed(
        lambda params, batch: jax.value_and_grad(loss)(params, batch, 1e-3),
        {"params": PARAMS, "batch": ROWS},
    ),
    "accumulated gradients": lambda: placed(
        lambda params, total, batch: jax.tree.map(jnp.add, total, jax.grad(loss)(params, batch)),
        {"params": PARAMS, "total": PARAMS, "batch": ROWS},
        ("total",),
    ),
}


def main(asked: Asked, figures: Figures) -> None:
    """Count the findings of each."""
    chosen = of_part(list(FRESH.items()), asked.part)
    false = false_findings(chosen)
    title = f"false findings, of {len(chosen)} fresh programs"
    figures.add(title, len(false), most=0, note="; ".join(false))


if __name__ == "__main__":
    measure(main, __doc__, part=("1/1", "K/N: every Nth, from the Kth on"))

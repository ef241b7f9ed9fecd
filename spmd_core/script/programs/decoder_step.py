"""One training step of a decoder: gradients, clipping by global norm, and the optimizer's update."""

import math

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from spmd_core.script.programs.decoder import Model
from spmd_core.script.programs.decoder_config import TRAIN_RULES, Decoder, parameter_dims, spec

RATE, DECAY, FIRST, SECOND, EPSILON, CLIP = 3e-5, 0.1, 0.9, 0.95, 1e-8, 1.0
LION_SECOND = 0.99


def adamw(g, p, step, mean, square):
    """AdamW with bias correction (Loshchilov and Hutter, arXiv:1711.05101)."""
    mean = FIRST * mean + (1 - FIRST) * g
    square = SECOND * square + (1 - SECOND) * g * g
    corrected = mean / (1 - FIRST**step)
    scale = jnp.sqrt(square / (1 - SECOND**step)) + EPSILON
    return corrected / scale + DECAY * p, (mean, square)


def momentum(g, p, step, mean):
    """SGD with momentum, as optax.sgd has it."""
    mean = FIRST * mean + g
    return mean, (mean,)


def lion(g, p, step, mean):
    """Lion (Chen et al., arXiv:2302.06675): the sign of an average that the gradient is ahead of."""
    change = jnp.sign(FIRST * mean + (1 - FIRST) * g) + DECAY * p
    return change, (LION_SECOND * mean + (1 - LION_SECOND) * g,)


# name -> (what it changes a parameter by and its new moments, all in float32; names of the moments)
OPTIMIZERS = {
    "adamw": (adamw, ("mean", "square")),
    "momentum": (momentum, ("mean",)),
    "lion": (lion, ("mean",)),
}


@jax.named_scope("global norm")
def global_norm(tree):
    return jnp.sqrt(
        sum(jnp.sum(jnp.square(leaf.astype(jnp.float32))) for leaf in jax.tree.leaves(tree))
    )


def value_and_gradients(model: Model, parameters, batch):
    """Loss and gradients of a batch: of its microbatches one after the other, added up. A microbatch has rows of every device."""
    count = model.config.microbatches or 1
    if count == 1:
        return jax.value_and_grad(model.loss)(parameters, batch)

    def add(total, part):
        return jax.tree.map(jnp.add, total, jax.value_and_grad(model.loss)(parameters, part)), None

    parts = {
        name: model.cut(
            jnp.moveaxis(rows.reshape(-1, count, rows.shape[1]), 1, 0), "parts", "batch", "length"
        )
        for name, rows in batch.items()
    }
    nothing = jnp.zeros(()), jax.tree.map(jnp.zeros_like, parameters)
    total, _ = jax.lax.scan(add, nothing, parts)
    return jax.tree.map(lambda each: each / count, total)


def make_train_step(model: Model):
    """The step: (state, batch) -> (state, metrics); state has parameters, moments by their names, and step."""
    rule, moments = OPTIMIZERS[model.config.optimizer]

    def train_step(state, batch):
        loss, gradients = value_and_gradients(model, state["parameters"], batch)
        norm = global_norm(gradients)
        gradients = jax.tree.map(
            lambda g: jnp.where(norm < CLIP, g, (g / norm.astype(g.dtype)) * CLIP), gradients
        )
        step = state["step"] + 1

        @jax.named_scope("optimizer")
        def update(p, g, *held):
            wide = p.astype(jnp.float32)
            now = (each.astype(jnp.float32) for each in held)
            change, new = rule(g.astype(jnp.float32), wide, step, *now)
            kept = (each.astype(old.dtype) for each, old in zip(new, held, strict=True))
            return (wide - RATE * change).astype(p.dtype), *kept

        names = ("parameters", *moments)
        updated = jax.tree.map(
            update, state["parameters"], gradients, *(state[name] for name in moments)
        )
        new_state = {
            name: jax.tree.map(
                lambda leaf, i=i: leaf[i], updated, is_leaf=lambda x: isinstance(x, tuple)
            )
            for i, name in enumerate(names)
        }
        metrics = {
            "loss": loss,
            "gradient_norm": norm,
            "parameter_norm": global_norm(new_state["parameters"]),
        }
        return new_state | {"step": step}, metrics

    return train_step


def abstract_arguments(config: Decoder, mesh: Mesh, batch: int, length: int, rules=TRAIN_RULES):
    """(state, batch) as jax.ShapeDtypeStruct with shardings: nothing is allocated."""

    def leaf(dims, dtype):
        return jax.ShapeDtypeStruct(
            tuple(size for _, size in dims),
            dtype,
            sharding=NamedSharding(mesh, spec(dims, rules, mesh)),
        )

    def is_leaf(x):
        return isinstance(x, tuple) and all(isinstance(entry, tuple) for entry in x)

    dims = parameter_dims(config)
    parameters = jax.tree.map(lambda d: leaf(d, config.parameter_dtype), dims, is_leaf=is_leaf)
    moments = {
        name: jax.tree.map(lambda d, dtype=dtype: leaf(d, dtype), dims, is_leaf=is_leaf)
        for name, dtype in zip(OPTIMIZERS[config.optimizer][1], config.moment_dtypes, strict=True)
    }
    step = jax.ShapeDtypeStruct((), jnp.int32, sharding=NamedSharding(mesh, P()))
    rows = leaf((("batch", batch), ("length", length)), jnp.int32)
    tokens = dict.fromkeys(("tokens", "targets", "positions", "segments"), rows)
    return {"parameters": parameters, **moments, "step": step}, tokens


def parameter_count(config: Decoder) -> int:
    """Parameters, embedding and norms included."""
    dims = parameter_dims(config)
    leaves = jax.tree.leaves(dims, is_leaf=lambda x: isinstance(x, tuple))
    return sum(math.prod(size for _, size in leaf) for leaf in leaves)


def lower_train_step(config: Decoder, mesh: Mesh, batch: int, length: int, kernel: bool = True):
    """The step lowered for a mesh, the state donated; call `.compile()` to see the compiler's program."""
    state, tokens = abstract_arguments(config, mesh, batch, length)
    step = make_train_step(Model(config, mesh, kernel=kernel))
    shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
    return jax.jit(step, donate_argnums=0, out_shardings=(shardings, None)).lower(state, tokens)

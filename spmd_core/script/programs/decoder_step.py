"""One training step of a decoder: gradients, clipping by global norm, and the optimizer's update."""

import functools
import math

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from spmd_core.script.programs.decoder import Model
from spmd_core.script.programs.decoder_config import (
    STATE_RULES,
    TRAIN_RULES,
    Decoder,
    adapter_dims,
    parameter_dims,
    spec,
)

RATE, DECAY, FIRST, SECOND, EPSILON, CLIP = 3e-5, 0.1, 0.9, 0.95, 1e-8, 1.0
LION_SECOND = 0.99
MUON_FIRST, NEWTON_SCHULZ = 0.95, 5
STACKED = ("layers", "experts", "fsdp_experts", "gate_up", "qkv")  # dims of many matrices
ROWS = ("embed", "unsharded_embed", "rank")  # dims that one side of a hidden matrix has alone
SMALL, MOST = "float8_e4m3fn", 448.0  # a dtype of moments with scales, and its largest value
ROOTS = ("square", "rows", "columns")  # kept in 8 bits as their roots, whose range is half as wide


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


def adafactor(g, p, step, rows, columns):
    """Adafactor (Shazeer and Stern, arXiv:1804.04235) without a first moment: second moments of rows and of columns, or of each element where `columns` is one number."""
    kept, square = 1 - step ** jnp.float32(-0.8), g * g + 1e-30
    if columns.ndim:
        rows = kept * rows + (1 - kept) * square.mean(-1)
        columns = kept * columns + (1 - kept) * square.mean(-2)
        share = rows / rows.mean(-1, keepdims=True)
        change = g * jax.lax.rsqrt(share[..., None] * columns[..., None, :])
    else:
        rows = kept * rows + (1 - kept) * square
        change = g * jax.lax.rsqrt(rows)
    change /= jnp.maximum(1.0, jnp.sqrt(jnp.mean(change * change)))
    return change + DECAY * p, (rows, columns)


def orthogonal(x):
    """The nearest semi-orthogonal matrices, about: five Newton-Schulz steps in bfloat16 (Jordan, kellerjordan.github.io/posts/muon)."""
    is_tall = x.shape[-2] > x.shape[-1]
    x = x.swapaxes(-1, -2) if is_tall else x
    x = x / (jnp.linalg.norm(x.astype(jnp.float32), axis=(-2, -1), keepdims=True) + 1e-7)
    x = x.astype(jnp.bfloat16)
    for _ in range(NEWTON_SCHULZ):
        square = x @ x.swapaxes(-1, -2)
        x = 3.4445 * x + (-4.7750 * square + 2.0315 * square @ square) @ x
    return x.swapaxes(-1, -2) if is_tall else x


def matrix_sides(dims) -> tuple[int, int] | None:
    """(stacked dims, dims of rows behind them) of a hidden matrix; None of tables, norms and biases."""
    names = [name for name, _ in dims]
    stacked = sum(name in STACKED for name in names)
    inside = names[stacked:]
    if len(inside) < 2 or {"vocab", "positions"} & {*names} or "taps" in names:
        return None
    if inside[0] in ROWS:
        return stacked, 1
    return (stacked, len(inside) - 1) if inside[-1] in ROWS else None


def muon(model: Model, dims, g, p, step, mean, square):
    """Muon (Jordan; Liu et al., arXiv:2502.16982) of hidden matrices, AdamW of all others. Layers are exchanged for whole matrices where they divide over the devices; else each is gathered in turn."""
    sides = matrix_sides(dims)
    if sides is None:
        return adamw(g, p, step, mean, square)
    if dims[0][0] != "layers":  # of a head of later tokens
        of_one = (("layers", 1), *dims)
        change, (mean, _) = muon(model, of_one, g[None], p[None], step, mean[None], square)
        return change[0], (mean[0], square)
    mean = MUON_FIRST * mean + g
    ahead, (stacked, rows) = (g + MUON_FIRST * mean).astype(jnp.bfloat16), sides
    names = [name for name, _ in dims]
    whole = ["experts" if name == "experts" else "whole" for name in names]

    def flat(x):
        sizes = x.shape[: stacked - 1], x.shape[stacked - 1 :][:rows], x.shape[stacked - 1 + rows :]
        return x.reshape(*sizes[0], math.prod(sizes[1]), math.prod(sizes[2]))

    def of_layer(x):
        x = model.cut(x, *whole[1:]) if one_by_one else x
        sides = flat(x).shape[-2:]
        made = orthogonal(flat(x)).reshape(x.shape) * (0.2 * max(sides) ** 0.5)
        return model.cut(made, *names[1:]) if one_by_one else made

    over = spec((("stacked", p.shape[0]),), model.rules, model.mesh)[0]
    one_by_one = over is None
    if one_by_one:
        change = jax.lax.map(of_layer, ahead)
    else:
        given = model.cut(ahead, "stacked", *whole[1:])
        # complete until its last sum, whose terms would be exchanged apart
        change = model.cut(jax.vmap(of_layer)(given), "stacked", *names[1:])
    change = model.cut(change, *names).astype(jnp.float32)
    return change + DECAY * p, (mean, square)


def of_all(dims):
    """The dims of a moment of each element."""
    return dims


def of_rows(dims):
    return dims[:-1] if len(dims) > 1 else dims


def of_columns(dims):
    return (*dims[:-2], dims[-1]) if len(dims) > 1 else ()


def beside_muon(dims):
    """The dims of a second moment, which hidden matrices do not have."""
    return dims if matrix_sides(dims) is None else ()


# name -> (what it changes a parameter by and its new moments, all in float32; moments by name with
# their dims)
OPTIMIZERS = {
    "adamw": (adamw, {"mean": of_all, "square": of_all}),
    "momentum": (momentum, {"mean": of_all}),
    "lion": (lion, {"mean": of_all}),
    "adafactor": (adafactor, {"rows": of_rows, "columns": of_columns}),
    "muon": (muon, {"mean": of_all, "square": beside_muon}),
}


def scaled_moments(config: Decoder) -> list[str]:
    """The moments that have 8 bits and scales."""
    named = zip(OPTIMIZERS[config.optimizer][1], config.moment_dtypes, strict=True)
    return [name for name, dtype in named if dtype == SMALL]


def of_scales(dims):
    """The dims of the scales of a moment: one for each row (as in COAT, arXiv:2410.19313, for each group)."""
    return (*dims[:-1], ("one", 1)) if dims else ()


def wide_moment(name, held):
    """A moment in float32, of what is held of it."""
    if f"{name}_scale" not in held:
        return held[name].astype(jnp.float32)
    x = held[name].astype(jnp.float32) * held[f"{name}_scale"]
    return x * x if name in ROOTS else x


def kept_moment(name, x, held) -> dict:
    """What is held of a moment, as before."""
    if f"{name}_scale" not in held:
        return {name: x.astype(held[name].dtype)}
    x = jnp.sqrt(x) if name in ROOTS else x
    scale = jnp.max(jnp.abs(x), axis=-1 if x.ndim else None, keepdims=True) / MOST + 1e-30
    return {name: (x / scale).astype(held[name].dtype), f"{name}_scale": scale}


def kept_moments(named, held) -> dict:
    """What is held of all moments of an array, each with its name."""
    kept = {}
    for name, x in named:
        kept |= kept_moment(name, x, held)
    return kept


def clipped(gradients, norm):
    """Gradients whose global norm is at most `CLIP`."""
    return jax.tree.map(
        lambda g: jnp.where(norm < CLIP, g, (g / norm.astype(g.dtype)) * CLIP), gradients
    )


@jax.named_scope("global norm")
def global_norm(tree):
    return jnp.sqrt(
        sum(jnp.sum(jnp.square(leaf.astype(jnp.float32))) for leaf in jax.tree.leaves(tree))
    )


def value_and_gradients(model: Model, parameters, batch, frozen=None):
    """Loss and gradients of a batch: of its microbatches one after the other, added up. A microbatch has rows of every device. Of adapters alone, where weights are frozen."""
    count = model.config.microbatches or 1

    def loss(parameters, batch):
        return model.loss(beside(frozen, parameters) if frozen else parameters, batch)

    if count == 1:
        return jax.value_and_grad(loss)(parameters, batch)

    def add(total, part):
        return jax.tree.map(jnp.add, total, jax.value_and_grad(loss)(parameters, part)), None

    parts = {
        name: model.cut(
            jnp.moveaxis(rows.reshape(-1, count, rows.shape[1]), 1, 0), "parts", "batch", "length"
        )
        for name, rows in batch.items()
    }
    dtype = model.config.parameter_dtype
    nothing = jnp.zeros(()), jax.tree.map(lambda p: jnp.zeros(p.shape, dtype), parameters)
    total, _ = jax.lax.scan(add, nothing, parts)
    return jax.tree.map(lambda each: each / count, total)


def gradients_of_state(model: Model, parameters, batch, frozen=None):
    """Loss and gradients of a state's parameters. Those sharded over `data` too are gathered once, hidden matrices in bfloat16 as matmuls read them, and gradients summed in shards."""
    if not model.config.shard_optimizer_over_data:
        return value_and_gradients(model, parameters, batch, frozen)
    dims, state = parameter_dims(model.config), Model(model.config, model.mesh, STATE_RULES)

    def complete(dims, p):
        p = p.astype(jnp.bfloat16) if matrix_sides(dims) else p
        return model.cut(state.cut(p, *dict(dims)), *dict(dims))

    def shard(dims, p, g):
        return state.cut(g, *dict(dims)).astype(p.dtype)

    gathered = jax.tree.map(complete, dims, parameters, is_leaf=are_dims)
    loss, gradients = value_and_gradients(model, gathered, batch)
    return loss, jax.tree.map(shard, dims, parameters, gradients, is_leaf=are_dims)


def beside(frozen, adapters):
    """Frozen weights, with the adapters of each layer."""
    stages = [
        [layer | more for layer, more in zip(*both, strict=True)]
        for both in zip(frozen["stages"], adapters["stages"], strict=True)
    ]
    return {**frozen, "stages": stages}


def trained_dims(config: Decoder):
    """The dims of the parameters that are trained."""
    return adapter_dims(config) if config.lora_rank else parameter_dims(config)


def make_train_step(model: Model):
    """The step: (state, batch) -> (state, metrics); state has parameters, moments by their names, step, and what is frozen."""
    rule, moments = OPTIMIZERS[model.config.optimizer]
    scales = [f"{name}_scale" for name in scaled_moments(model.config)]

    def train_step(state, batch):
        unchanged = {name: state[name] for name in ("frozen",) if name in state}
        given = state["parameters"], batch, *unchanged.values()
        loss, gradients = gradients_of_state(model, *given)
        norm = global_norm(gradients)
        gradients, step = clipped(gradients, norm), state["step"] + 1

        @jax.named_scope("optimizer")
        def update(dims, p, g, *arrays):
            wide, held = p.astype(jnp.float32), dict(zip(names[1:], arrays, strict=True))
            now = (wide_moment(name, held) for name in moments)
            made = functools.partial(muon, model, dims) if rule is muon else rule
            change, new = made(g.astype(jnp.float32), wide, step, *now)
            kept = kept_moments(zip(moments, new, strict=True), held)
            return (wide - RATE * change).astype(p.dtype), *(kept[name] for name in names[1:])

        names = ("parameters", *moments, *scales)
        dims, held = trained_dims(model.config), [state[name] for name in names[1:]]
        given = state["parameters"], gradients, *held
        updated = jax.tree.map(update, dims, *given, is_leaf=are_dims)
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
        return new_state | unchanged | {"step": step}, metrics

    return train_step


def are_dims(x) -> bool:
    """Returns True for the dims of one array in a tree of them."""
    return isinstance(x, tuple) and all(isinstance(entry, tuple) for entry in x)


def abstract_arguments(config: Decoder, mesh: Mesh, batch: int, length: int, rules=TRAIN_RULES):
    """(state, batch) as jax.ShapeDtypeStruct with shardings: nothing is allocated."""
    rules = STATE_RULES if config.shard_optimizer_over_data else rules

    def leaf(dims, dtype):
        return jax.ShapeDtypeStruct(
            tuple(size for _, size in dims),
            dtype,
            sharding=NamedSharding(mesh, spec(dims, rules, mesh)),
        )

    dims, held = trained_dims(config), OPTIMIZERS[config.optimizer][1]
    parameters = jax.tree.map(lambda d: leaf(d, config.parameter_dtype), dims, is_leaf=are_dims)
    moments = {
        name: jax.tree.map(lambda d, of=of, dtype=dtype: leaf(of(d), dtype), dims, is_leaf=are_dims)
        for (name, of), dtype in zip(held.items(), config.moment_dtypes, strict=True)
    }
    for name in scaled_moments(config):
        of = held[name]
        moments[f"{name}_scale"] = jax.tree.map(
            lambda d, of=of: leaf(of_scales(of(d)), "float32"), dims, is_leaf=are_dims
        )
    step = jax.ShapeDtypeStruct((), jnp.int32, sharding=NamedSharding(mesh, P()))
    rows = leaf((("batch", batch), ("length", length)), jnp.int32)
    tokens = dict.fromkeys(("tokens", "targets", "positions", "segments"), rows)
    state = {"parameters": parameters, **moments, "step": step}
    if config.lora_rank:
        of_all = parameter_dims(config)
        state["frozen"] = jax.tree.map(lambda d: leaf(d, "bfloat16"), of_all, is_leaf=are_dims)
    return state, tokens


def parameter_count(config: Decoder) -> int:
    """Parameters, embedding and norms included."""
    leaves = jax.tree.leaves(parameter_dims(config), is_leaf=are_dims)
    return sum(math.prod(size for _, size in leaf) for leaf in leaves)


def lower_train_step(config: Decoder, mesh: Mesh, batch: int, length: int, kernel: bool = True):
    """The step lowered for a mesh, the state donated; call `.compile()` to see the compiler's program."""
    state, tokens = abstract_arguments(config, mesh, batch, length)
    step = make_train_step(Model(config, mesh, kernel=kernel))
    shardings = jax.tree.map(lambda leaf: leaf.sharding, state)
    return jax.jit(step, donate_argnums=0, out_shardings=(shardings, None)).lower(state, tokens)

"""Steps written with other people's libraries, exported by `jax.export`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from flax import linen as nn, nnx
from jax import export
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, sgd_step, written

MESH = abstract_mesh({"fsdp": 4, "tensor": 2})
WIDTH, BATCH = 64, 32


def _placed(tree: Any) -> Any:
    """Abstract arrays, each sharded over `fsdp` along its first dim that divides, else replicated."""

    def place(leaf: Any) -> jax.ShapeDtypeStruct:
        parts = dict(MESH.shape)["fsdp"]
        dim = next((at for at, size in enumerate(leaf.shape) if size % parts == 0), None)
        spec = P() if dim is None else P(*[None] * dim, "fsdp")
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=NamedSharding(MESH, spec))

    return jax.tree.map(place, tree)


def _trained(
    loss: Callable[..., Any], params: Any, batch: Any, optimizer: Any, **rest: Any
) -> bytes:
    """The step of an optimizer on a loss of (params, batch)."""
    state = jax.eval_shape(optimizer.init, params)

    def step(params: Any, opt_state: Any, batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, batch)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), opt_state, value

    arguments = {"params": params, "opt_state": state, "batch": batch}
    return written(step, _placed(arguments), donated=("params", "opt_state"), **rest)


def _x(*shape: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _mean_square(output: Any) -> jax.Array:
    return jnp.mean(output**2)


def _linen(module: nn.Module, x: Any, optimizer: Any) -> bytes:
    params = jax.eval_shape(module.init, jax.random.key(0), x)
    return _trained(lambda p, x: _mean_square(module.apply(p, x)), params, x, optimizer)


def _nnx(make: Callable[[nnx.Rngs], Any], x: Any, optimizer: Any) -> bytes:
    model = nnx.eval_shape(lambda: make(nnx.Rngs(0)))
    graph, state = nnx.split(model)
    params = nnx.to_pure_dict(state)

    def loss(params: Any, x: Any) -> Any:
        now = jax.tree.map(lambda leaf: leaf, state)
        nnx.replace_by_pure_dict(now, params)
        return (nnx.merge(graph, now)(x) ** 2).mean()

    return _trained(loss, params, x, optimizer)


def _equinox(make: Callable[[Any], Any], x: Any, optimizer: Any) -> bytes:
    model = eqx.filter_eval_shape(make, jax.random.key(0))
    params, static = eqx.partition(model, lambda leaf: isinstance(leaf, jax.ShapeDtypeStruct))
    loss = lambda p, x: (jax.vmap(eqx.combine(p, static))(x) ** 2).mean()  # noqa: E731
    return _trained(loss, params, x, optimizer)


def _plain(loss: Callable[..., Any], batch: Any = None, optimizer: Any = None) -> bytes:
    params = {"w": _x(8, WIDTH, WIDTH), "out": _x(WIDTH, WIDTH)}
    return _trained(loss, params, batch or _x(BATCH, WIDTH), optimizer or optax.sgd(0.1))


def _scan(p: Any, x: Any) -> Any:
    x, _ = jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, p["w"])
    return ((x @ p["out"]) ** 2).mean()


def _remat(p: Any, x: Any) -> Any:
    layer = jax.checkpoint(lambda x, w: jnp.tanh(x @ w))
    for number in range(8):
        x = layer(x, p["w"][number])
    return (x**2).mean()


def _mixture(p: Any, x: Any) -> Any:
    gate = jax.nn.softmax(x @ p["out"][:, :8])
    every = jnp.einsum("bd,edf->ebf", x, p["w"])
    return (jnp.einsum("be,ebf->bf", gate, every) ** 2).mean()


def _attention(p: Any, x: Any) -> Any:
    q, k, v = (jnp.einsum("bsd,df->bsf", x, p["w"][at]) for at in range(3))
    scores = jax.nn.softmax(jnp.einsum("bsf,btf->bst", q, k) / 8)
    return (jnp.einsum("bst,btf->bsf", scores, v) ** 2).mean()


def _by_hand(p: Any, x: Any) -> Any:
    def local(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ jax.lax.all_gather(w, "fsdp", axis=0, tiled=True))

    specs = {"in_specs": (P("fsdp"), P("fsdp")), "out_specs": P("fsdp")}
    y = jax.shard_map(local, mesh=MESH, axis_names={"fsdp"}, **specs)(x, p["out"])
    return (y**2).mean()


def _symbols() -> bytes:
    (b,) = export.symbolic_shape("b")
    x = jax.ShapeDtypeStruct((8 * b, WIDTH), jnp.float32, sharding=NamedSharding(MESH, P("fsdp")))
    return written(lambda w, x: jnp.tanh(x @ w), {"w": _placed(_x(WIDTH, WIDTH)), "x": x})


def _callback(p: Any, x: Any) -> Any:
    jax.debug.print("{}", x.sum())
    return _scan(p, x)


class _Vision(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        for features in (16, 32):
            x = nn.relu(nn.Conv(features, (3, 3), strides=2)(x))
        return nn.Dense(16)(nn.LayerNorm()(x.reshape(x.shape[0], -1)))


class _Block(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = x + nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x))
        return x + nn.Dense(WIDTH)(nn.gelu(nn.Dense(4 * WIDTH)(nn.LayerNorm()(x))))


def _transformer(rngs: nnx.Rngs) -> Any:
    return nnx.Sequential(
        nnx.LayerNorm(WIDTH, rngs=rngs),
        nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs),
        nnx.gelu,
        nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs),
    )


class _Attention(eqx.Module):
    attention: eqx.nn.MultiheadAttention

    def __init__(self, key: Any) -> None:
        self.attention = eqx.nn.MultiheadAttention(4, WIDTH, key=key)

    def __call__(self, x: Any) -> Any:
        return self.attention(x, x, x)


def _mlp(key: Any) -> Any:
    return eqx.nn.MLP(WIDTH, WIDTH, 128, 3, key=key)


_ROWS, _TOKENS = _x(BATCH, WIDTH), _x(BATCH, 16, WIDTH)
STEPS: dict[str, Callable[[], bytes]] = {
    "plain, momentum": sgd_step,
    "plain, scan, sgd": lambda: _plain(_scan),
    "plain, scan, adamw": lambda: _plain(_scan, optimizer=optax.adamw(1e-3)),
    "plain, remat, adafactor": lambda: _plain(_remat, optimizer=optax.adafactor(1e-3)),
    "plain, clipped lion": lambda: _plain(
        _scan, optimizer=optax.chain(optax.clip_by_global_norm(1.0), optax.lion(1e-4))
    ),
    "plain, mixture of experts": lambda: _plain(_mixture, optimizer=optax.adam(1e-3)),
    "plain, attention": lambda: _plain(_attention, _TOKENS),
    "plain, shard_map": lambda: _plain(_by_hand),
    "plain, symbols": _symbols,
    "plain, debug.print": lambda: _plain(_callback),
    "linen, vision, adamw": lambda: _linen(_Vision(), _x(16, 16, 16, 3), optax.adamw(1e-3)),
    "linen, vision, sgd": lambda: _linen(_Vision(), _x(16, 16, 16, 3), optax.sgd(0.1, 0.9)),
    "linen, transformer, adamw": lambda: _linen(_Block(), _TOKENS, optax.adamw(1e-3)),
    "linen, transformer, adafactor": lambda: _linen(_Block(), _TOKENS, optax.adafactor(1e-3)),
    "nnx, mlp, adamw": lambda: _nnx(_transformer, _ROWS, optax.adamw(1e-3)),
    "nnx, mlp, sgd": lambda: _nnx(_transformer, _ROWS, optax.sgd(0.1)),
    "nnx, convolution, adam": lambda: _nnx(
        lambda rngs: nnx.Conv(4, 16, (3, 3), rngs=rngs), _x(16, 8, 8, 4), optax.adam(1e-3)
    ),
    "equinox, mlp, adamw": lambda: _equinox(_mlp, _ROWS, optax.adamw(1e-3)),
    "equinox, mlp, sgd": lambda: _equinox(_mlp, _ROWS, optax.sgd(0.1)),
    "equinox, attention, adam": lambda: _equinox(_Attention, _TOKENS, optax.adam(1e-3)),
}

"""Steps as their authors have them, with three facts of each that its explanation's first screen
should have: an accident, a path, a line. Facts were written before a step was explained.
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn, nnx
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P

WIDTH, BATCH = 256, 64
SIZES, AXES = (4, 2), ("fsdp", "tensor")
NOT_DONATED = "missing_donation: params is replaced and not donated"


@dataclass(frozen=True)
class Case:
    """A step, its arguments, and the facts of it. `lower`: how its library lowers it."""

    step: Callable[..., Any]
    args: tuple[Any, ...]
    facts: tuple[str, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    lower: Callable[..., Any] | None = None
    around: Callable[[], Any] = nullcontext

    def compiled(self) -> Any:
        """What JAX makes of it without the lab."""
        lower = self.lower or getattr(self.step, "lower", None) or jax.jit(self.step).lower
        lowered = lower(*self.args, **self.kwargs)
        lowered = getattr(lowered, "lowered", lowered)
        return lowered.compile()


def mesh(types: AxisType = AxisType.Auto) -> jax.sharding.Mesh:
    """4 by 2 devices."""
    return jax.make_mesh(SIZES, AXES, axis_types=(types,) * 2)


def held(*shape: int, spec: tuple[Any, ...] = (), dtype: Any = jnp.float32, on: Any = None) -> Any:
    """An abstract array on the mesh."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(on or mesh(), P(*spec)))


def array(*shape: int, spec: tuple[Any, ...] = (), on: Any = None) -> jax.Array:
    """An array on the mesh."""
    return jax.device_put(jnp.ones(shape), NamedSharding(on or mesh(), P(*spec)))


def layers(count: int, width: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """An unrolled step of attention layers."""
    keys = ("q", "k", "v", "o", "up", "down")
    params = [
        {name: held(width, width, spec=("fsdp", "tensor")) for name in keys} for _ in range(count)
    ]

    def loss(params: Any, x: Any) -> Any:
        for layer in params:
            q, k, v = (x @ layer[name] for name in ("q", "k", "v"))
            scores = jax.nn.softmax(q @ k.swapaxes(-1, -2) / width**0.5)
            x = x + (scores @ v) @ layer["o"]
            x = x + jax.nn.gelu(x @ layer["up"]) @ layer["down"]
        return (x**2).mean()

    def step(params: Any, x: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, x)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), value

    return step, (params, held(8, 16, width, spec=("fsdp",)))


def _params(up: tuple[Any, ...] = ("fsdp", "tensor")) -> dict[str, Any]:
    return {
        "up": held(WIDTH, 4 * WIDTH, spec=up),
        "down": held(4 * WIDTH, WIDTH, spec=("tensor", "fsdp")),
    }


def _x() -> Any:
    return held(BATCH, WIDTH, spec=("fsdp",))


def _loss(params: Any, x: Any) -> Any:
    h = jax.nn.relu(x @ params["up"])
    return ((h @ params["down"]) ** 2).mean()


def _descend(params: Any, gradients: Any) -> Any:
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)


def _sgd(loss: Callable[..., Any], params: Any, *batch: Any) -> Any:
    return _descend(params, jax.grad(loss)(params, *batch))


def plain() -> Case:
    """A function, not jitted."""

    def step(params: Any, x: Any) -> Any:
        return _sgd(_loss, params, x)

    return Case(
        step, (_params(), _x()), (NOT_DONATED, "params/up", 'h = jax.nn.relu(x @ params["up"])')
    )


def replicated() -> Case:
    """A jitted function that donates, and replicates one matrix."""
    step = jax.jit(lambda params, x: _sgd(_loss, params, x), donate_argnums=0)
    facts = ("replicated: params/up is replicated on 8 devices", "params/down", "((h @ params")
    return Case(step, (_params(()), _x()), facts)


def arrays() -> Case:
    """Real arrays."""
    params = jax.tree.map(lambda each: array(*each.shape, spec=each.sharding.spec), _params())
    x = array(BATCH, WIDTH, spec=("fsdp",))
    step = jax.jit(lambda params, x: _sgd(_loss, params, x))
    return Case(step, (params, x), (NOT_DONATED, "params/up", "h = jax.nn.relu"))


def scan() -> Case:
    """A scan over stacked layers."""

    def loss(params: Any, x: Any) -> Any:
        def body(x: Any, w: Any) -> Any:
            return jnp.tanh(x @ w), None

        x, _ = jax.lax.scan(body, x, params["w"])
        return (x**2).mean()

    params = {"w": held(6, WIDTH, WIDTH, spec=(None, "fsdp", "tensor"))}
    step = jax.jit(partial(_sgd, loss))
    return Case(step, (params, _x()), (NOT_DONATED, "params/w", "return jnp.tanh(x @ w), None"))


def remat() -> Case:
    """Rematerialized layers."""

    def loss(params: Any, x: Any) -> Any:
        for w in params["w"]:
            x = jax.checkpoint(lambda x, w: jnp.sin(x @ w))(x, w)
        return (x**2).mean()

    params = {"w": [held(WIDTH, WIDTH, spec=("fsdp",)) for _ in range(4)]}
    step = jax.jit(partial(_sgd, loss))
    return Case(step, (params, _x()), (NOT_DONATED, "params/w", "jnp.sin(x @ w)"))


def adam() -> Case:
    """State of optax, whose moments are sharded by a rule of their own."""
    optimizer = optax.adamw(1e-3)
    params = {"w": held(WIDTH, 4 * WIDTH, spec=("fsdp", "tensor"))}
    state = jax.eval_shape(optimizer.init, params)
    state = jax.tree.map(
        lambda leaf: held(*leaf.shape, dtype=leaf.dtype, spec=("tensor",) if leaf.ndim else ()),
        state,
    )

    @partial(jax.jit, donate_argnums=(0, 1))
    def step(params: Any, opt_state: Any, x: Any) -> Any:
        gradients = jax.grad(lambda p: ((x @ p["w"]) ** 2).mean())(params)
        updates, opt_state = optimizer.update(gradients, opt_state, params)
        return optax.apply_updates(params, updates), opt_state

    facts = (
        "rule: opt_state/0/mu/w has P('tensor', None)",
        "opt_state/0/nu/w",
        '((x @ p["w"]) ** 2)',
    )
    return Case(step, (params, state, _x()), facts)


def accumulation() -> Case:
    """Gradients accumulated over microbatches."""

    def step(params: Any, batch: Any) -> Any:
        def body(total: Any, x: Any) -> Any:
            return jax.tree.map(jnp.add, total, jax.grad(_loss)(params, x)), None

        total, _ = jax.lax.scan(body, jax.tree.map(jnp.zeros_like, params), batch)
        return _descend(params, total)

    batch = held(4, BATCH, WIDTH, spec=(None, "fsdp"))
    return Case(step, (_params(), batch), (NOT_DONATED, "batch", "h = jax.nn.relu"))


def mapped() -> Case:
    """`shard_map` with its own collectives."""
    on = mesh()

    def local(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ jax.lax.all_gather(w, "fsdp", axis=0, tiled=True))

    def step(params: Any, x: Any) -> Any:
        y = jax.shard_map(local, mesh=on, in_specs=(P("fsdp"), P("fsdp")), out_specs=P("fsdp"))
        return _sgd(lambda p: (y(x, p["w"]) ** 2).mean(), params)

    params = {"w": held(WIDTH, WIDTH, spec=("fsdp",), on=on)}
    facts = (NOT_DONATED, "params/w", 'jax.lax.all_gather(w, "fsdp", axis=0, tiled=True)')
    return Case(step, (params, held(BATCH, WIDTH, spec=("fsdp",), on=on)), facts)


def ring() -> Case:
    """Ring attention: keys and values go around by ppermute."""
    on = mesh()

    def local(q: Any, k: Any, v: Any) -> Any:
        out = jnp.zeros_like(q)
        for _ in range(SIZES[0]):
            out = out + jax.nn.softmax(q @ k.T) @ v
            k, v = (
                jax.lax.ppermute(x, "fsdp", [(i, (i + 1) % 4) for i in range(4)]) for x in (k, v)
            )
        return out

    step = jax.shard_map(local, mesh=on, in_specs=P("fsdp"), out_specs=P("fsdp"))
    q = held(BATCH, WIDTH, spec=("fsdp",), on=on)
    return Case(
        step,
        (q, q, q),
        (
            "unused_axis: no spec names mesh axis tensor=2",
            "collective-permute over fsdp",
            "jax.lax.ppermute(x",
        ),
    )


def pipeline() -> Case:
    """A pipeline of stages by ppermute, in a loop."""
    on = mesh()

    def local(w: Any, x: Any) -> Any:
        def stage(_: Any, x: Any) -> Any:
            x = jnp.tanh(x @ w[0])
            return jax.lax.ppermute(x, "fsdp", [(i, (i + 1) % 4) for i in range(4)])

        return jax.lax.fori_loop(0, 6, stage, x)

    step = jax.shard_map(local, mesh=on, in_specs=(P("fsdp"), P("fsdp")), out_specs=P("fsdp"))
    w, x = held(4, WIDTH, WIDTH, spec=("fsdp",), on=on), held(BATCH, WIDTH, spec=("fsdp",), on=on)
    return Case(
        step,
        (w, x),
        ("unused_axis: no spec names mesh axis tensor=2", "6x", "return jax.lax.ppermute(x"),
    )


def debug_print() -> Case:
    """A debug print within a step."""

    def step(params: Any, x: Any) -> Any:
        jax.debug.print("sum {}", x.sum())
        return _sgd(_loss, params, x)

    return Case(step, (_params(), _x()), (NOT_DONATED, "jax.debug", "h = jax.nn.relu"))


def pure_callback() -> Case:
    """A pure callback that scales the gradient."""

    def step(params: Any, x: Any) -> Any:
        scale = jax.pure_callback(np.cos, jax.ShapeDtypeStruct((), jnp.float32), x.sum())
        return jax.tree.map(lambda each: scale * each, _sgd(_loss, params, x))

    return Case(step, (_params(), _x()), (NOT_DONATED, "jax.pure_callback (1)", "h = jax.nn.relu"))


def explicit() -> Case:
    """Explicit axes under `set_mesh`."""
    on = mesh(AxisType.Explicit)

    def step(params: Any, x: Any) -> Any:
        h = jnp.einsum("bd,df->bf", x, jax.sharding.reshard(params["w"], P(None, "tensor")))
        return {"w": params["w"] * h.mean()}

    params = {"w": held(WIDTH, 4 * WIDTH, spec=("fsdp", "tensor"), on=on)}
    x = held(BATCH, WIDTH, spec=("fsdp",), on=on)
    facts = (NOT_DONATED, "Explicit", "jax.sharding.reshard(params")
    return Case(jax.jit(step), (params, x), facts, around=lambda: jax.set_mesh(on))


def keys() -> Case:
    """Keys of random numbers: dropout."""

    def step(params: Any, x: Any, *, rng: Any) -> Any:
        def loss(params: Any) -> Any:
            h = jax.nn.relu(x @ params["up"])
            h = h * jax.random.bernoulli(rng, 0.9, h.shape)
            return ((h @ params["down"]) ** 2).mean()

        return _descend(params, jax.grad(loss)(params))

    return Case(
        step, (_params(), _x()), (NOT_DONATED, "rng", "h = jax.nn.relu"), {"rng": jax.random.key(0)}
    )


def static() -> Case:
    """Static arguments and keywords."""

    @partial(jax.jit, static_argnums=2, static_argnames="scale")
    def step(params: Any, x: Any, power: int, *, scale: float = 1.0) -> Any:
        return _sgd(lambda p: scale * ((x @ p["up"]) ** power).mean(), params)

    params = {"up": held(WIDTH, WIDTH, spec=("fsdp",))}
    return Case(
        step,
        (params, _x(), 2),
        (NOT_DONATED, "params/up", '((x @ p["up"]) ** power)'),
        {"scale": 2.0},
    )


def constrained() -> Case:
    """A constraint within the step, over a closed-over mesh."""
    on = mesh()

    def step(params: Any, x: Any) -> Any:
        def loss(params: Any) -> Any:
            h = x @ params["up"]
            h = jax.lax.with_sharding_constraint(h, NamedSharding(on, P(None, None)))
            return ((h @ params["down"]) ** 2).mean()

        return _descend(params, jax.grad(loss)(params))

    return Case(
        step,
        (_params(), _x()),
        (
            NOT_DONATED,
            "params/down",
            "as the program's with_sharding_constraint at explained_steps.py",
        ),
    )


def mixture() -> Case:
    """A mixture of experts, by einsum."""

    def loss(params: Any, x: Any) -> Any:
        gates = jax.nn.softmax(x @ params["gate"])
        every = jnp.einsum("bd,edf->ebf", x, params["experts"])
        return (jnp.einsum("be,ebf->bf", gates, every) ** 2).mean()

    params = {
        "gate": held(WIDTH, 8),
        "experts": held(8, WIDTH, WIDTH, spec=("tensor", "fsdp")),
    }
    step = jax.jit(partial(_sgd, loss))
    return Case(step, (params, _x()), (NOT_DONATED, "params/experts", 'jnp.einsum("bd,edf->ebf"'))


class _Mlp(nn.Module):
    @nn.compact
    def __call__(self, x: Any) -> Any:
        x = nn.gelu(nn.Dense(4 * WIDTH, name="up")(x))
        return nn.Dense(WIDTH, name="down")(x)


def linen() -> Case:
    """A module of Flax linen."""
    module = _Mlp()
    shapes = jax.eval_shape(module.init, jax.random.key(0), jnp.ones((1, WIDTH)))
    params = jax.tree.map(
        lambda leaf: held(*leaf.shape, spec=("fsdp",) if leaf.ndim > 1 else ()), shapes
    )

    @jax.jit
    def step(params: Any, x: Any) -> Any:
        return _sgd(lambda p: (jnp.asarray(module.apply(p, x)) ** 2).mean(), params)

    return Case(
        step,
        (params, _x()),
        (NOT_DONATED, "params/params/up/kernel", 'nn.Dense(4 * WIDTH, name="up")'),
    )


class _Module(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.up = nnx.Linear(WIDTH, 4 * WIDTH, rngs=rngs)
        self.down = nnx.Linear(4 * WIDTH, WIDTH, rngs=rngs)
        self.name = "block"  # static

    def __call__(self, x: Any) -> Any:
        h = nnx.gelu(self.up(x))
        return self.down(h)


def _nnx_model() -> _Module:
    model, on = _Module(nnx.Rngs(0)), mesh()
    graph, state = nnx.split(model)

    def place(leaf: Any) -> Any:
        return jax.device_put(leaf, NamedSharding(on, P("fsdp") if leaf.ndim > 1 else P()))

    return nnx.merge(graph, jax.tree.map(place, state))


def _nnx_step(model: Any, x: Any) -> Any:
    gradients = nnx.grad(lambda model: (model(x) ** 2).mean())(model)
    nnx.update(model, jax.tree.map(lambda p, g: p - 0.1 * g, nnx.state(model), gradients))


def nnx_jit() -> Case:
    """`nnx.jit`, a module with static fields that is updated in place."""
    step = nnx.jit(_nnx_step)
    x = array(BATCH, WIDTH, spec=("fsdp",))
    return Case(
        step,
        (_nnx_model(), x),
        ("missing_donation: model is replaced", "model/up/kernel", "h = nnx.gelu(self.up(x))"),
    )


def nnx_plain() -> Case:
    """A function of an NNX module, not jitted."""
    x = array(BATCH, WIDTH, spec=("fsdp",))
    facts = (
        "unused_axis: no spec names mesh axis tensor=2",
        "model/up/kernel",
        "h = nnx.gelu(self.up(x))",
    )
    lower = lambda *args: nnx.jit(_nnx_step).lower(*args)  # noqa: E731
    return Case(_nnx_step, (_nnx_model(), x), facts, lower=lower)


def nnx_optimizer() -> Case:
    """`nnx.Optimizer`: model and optimizer are updated in place."""
    model = _nnx_model()
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any, x: Any) -> Any:
        value, gradients = nnx.value_and_grad(lambda model: (model(x) ** 2).mean())(model)
        optimizer.update(model, gradients)
        return value

    x = array(BATCH, WIDTH, spec=("fsdp",))
    facts = (
        "unused_axis: no spec names mesh axis tensor=2",
        "optimizer/opt_state",
        "h = nnx.gelu(self.up(x))",
    )
    return Case(step, (model, optimizer, x), facts)


def _equinox_model(abstract: bool) -> Any:
    make = lambda: eqx.nn.MLP(WIDTH, WIDTH, 4 * WIDTH, 1, key=jax.random.key(0))  # noqa: E731
    on = mesh()
    model = eqx.filter_eval_shape(make) if abstract else make()

    def place(leaf: Any) -> Any:
        if not hasattr(leaf, "shape"):
            return leaf
        sharding = NamedSharding(on, P("fsdp") if leaf.ndim > 1 else P())
        if abstract:
            return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
        return jax.device_put(leaf, sharding)

    return jax.tree.map(place, model)


def _equinox_step(model: Any, x: Any) -> Any:
    @eqx.filter_grad
    def gradients(model: Any) -> Any:
        y = jax.vmap(model)(x)
        return (y**2).mean()

    return eqx.apply_updates(model, gradients(model))


def equinox_jit() -> Case:
    """`eqx.filter_jit` with arrays."""
    x = array(BATCH, WIDTH, spec=("fsdp",))
    facts = (
        "missing_donation: model is replaced",
        "model/layers/0/weight",
        "y = jax.vmap(model)(x)",
    )
    step = eqx.filter_jit(_equinox_step)
    return Case(step, (_equinox_model(False), x), facts)


def equinox_abstract() -> Case:
    """`eqx.filter_jit` with abstract arrays, which its own `lower` refuses; it donates."""
    facts = (
        "unused_axis: no spec names mesh axis tensor=2",
        "model/layers/0/weight",
        "y = jax.vmap(model)(x)",
    )
    concrete = (_equinox_model(False), array(BATCH, WIDTH, spec=("fsdp",)))
    step = eqx.filter_jit(_equinox_step, donate="all-except-first")
    lower = lambda *args: step.lower(*concrete)  # noqa: E731
    return Case(step, (_equinox_model(True), _x()), facts, lower=lower)


def equinox_plain() -> Case:
    """A function of an Equinox module, not jitted."""
    x = array(BATCH, WIDTH, spec=("fsdp",))
    facts = (
        "missing_donation: model is replaced",
        "model/layers/1/weight",
        "y = jax.vmap(model)(x)",
    )
    model = _equinox_model(False)
    lower = lambda *args: eqx.filter_jit(_equinox_step).lower(*args)  # noqa: E731
    return Case(_equinox_step, (model, x), facts, lower=lower)


STEPS: tuple[Callable[[], Case], ...] = (
    *(plain, replicated, arrays, scan, remat, adam, accumulation, mapped, ring, pipeline),
    *(debug_print, pure_callback, explicit, keys, static, constrained, mixture),
    *(linen, nnx_jit, nnx_plain, nnx_optimizer, equinox_jit, equinox_abstract, equinox_plain),
)

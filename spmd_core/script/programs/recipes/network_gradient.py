"""A network of two layers, trained with the mean of gradients over devices; loss and gradient from one value_and_grad."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

STEPS = 100
HIDDEN = 16
RATE = 0.2


def loss(params, x, y):
    """Mean squared error of a tanh layer followed by a linear one."""
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"] + params["b2"] - y) ** 2)


def draw(mesh):
    """First parameters, and sixteen samples per device of a bump to learn."""
    rng = np.random.default_rng(0)
    params = {
        "w1": rng.normal(size=(2, HIDDEN)),
        "b1": np.zeros(HIDDEN),
        "w2": rng.normal(size=(HIDDEN, 1)) / np.sqrt(HIDDEN),
        "b2": np.zeros(1),
    }
    x = rng.uniform(-1, 1, size=(16 * mesh.size, 2)).astype(np.float32)
    y = np.exp(-4 * (x**2).sum(axis=1, keepdims=True))
    return jax.tree.map(lambda value: jnp.asarray(value, jnp.float32), params), x, y


def over_devices(mesh):
    """Loss and gradient by pmap and by shard_map, and a gradient that is summed once too often."""
    step_of = jax.value_and_grad(loss)

    @partial(
        jax.pmap,
        axis_name="i",
        in_axes=(None, 0, 0),
        out_axes=None,
        devices=list(mesh.devices.flat),
    )
    def by_pmap(params, x, y):
        return jax.lax.pmean(step_of(params, x, y), "i")

    @jax.jit
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(mesh.axis_names), P(mesh.axis_names)),
        out_specs=P(),
    )
    def by_shard_map(params, x, y):
        return jax.value_and_grad(
            lambda params: jax.lax.pmean(loss(params, x, y), mesh.axis_names)
        )(params)

    @jax.jit
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(mesh.axis_names), P(mesh.axis_names)),
        out_specs=P(),
    )
    def careless(params, x, y):
        return jax.lax.pmean(
            step_of(params, x, y)[1], mesh.axis_names
        )  # these gradients are sums over the devices already

    return by_pmap, by_shard_map, careless


def difference(gradient, single):
    """The largest difference of any parameter's gradient, over that parameter's largest."""
    pairs = zip(jax.tree.leaves(gradient), jax.tree.leaves(single), strict=True)
    return max(
        float(np.abs(np.asarray(one) - np.asarray(other)).max() / np.abs(np.asarray(other)).max())
        for one, other in pairs
    )


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    params, x, y = draw(mesh)
    step_of = jax.value_and_grad(loss)
    by_pmap, by_shard_map, careless = over_devices(mesh)
    spread = jax.device_put((x, y), NamedSharding(mesh, P(mesh.axis_names)))
    single_loss, single = jax.jit(step_of)(params, x, y)
    blocks = x.reshape(mesh.size, -1, 2), y.reshape(mesh.size, -1, 1)
    gradients = {
        "pmap": by_pmap(params, *blocks)[1],
        "shard_map": by_shard_map(params, *spread)[1],
        "auto": jax.jit(step_of)(params, *spread)[1],
    }

    results: dict[str, jax.Array | str] = {
        "first_loss": single_loss,
        "gradient_of_b2": single["b2"],
    }
    results |= {
        f"{name} against one device": f"largest difference {difference(gradient, single):.1e}"
        for name, gradient in gradients.items()
    }
    times = float(careless(params, *spread)["b2"][0] / single["b2"][0])
    results["pmean of gradients inside shard_map"] = f"{times:.4g} times the gradient"

    losses = []
    for _ in range(STEPS):
        value, gradient = by_shard_map(params, *spread)
        losses.append(value)
        params = jax.tree.map(lambda value, slope: value - RATE * slope, params, gradient)
    results["losses"] = jnp.stack(losses)
    return results

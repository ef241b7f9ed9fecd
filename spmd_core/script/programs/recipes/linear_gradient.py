"""Linear regression: the gradient of a batch on one device, and as the mean of gradients over devices, three ways."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

STEPS = 60
RATE = 0.1


def loss(weights, x, y):
    """Mean squared error of x @ weights against y."""
    return jnp.mean((x @ weights - y) ** 2)


def over_devices(mesh):
    """The mean of the devices' gradients by pmap, and the gradient of the mean by shard_map."""
    devices = list(mesh.devices.flat)

    @partial(jax.pmap, axis_name="i", in_axes=(None, 0, 0), out_axes=None, devices=devices)
    def by_pmap(weights, x, y):
        return jax.lax.pmean(jax.grad(loss)(weights, x, y), "i")

    @jax.jit
    @partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P(), P(mesh.axis_names), P(mesh.axis_names)),
        out_specs=P(),
    )
    def by_shard_map(weights, x, y):
        return jax.grad(lambda weights: jax.lax.pmean(loss(weights, x, y), mesh.axis_names))(
            weights
        )

    return by_pmap, by_shard_map


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8 * mesh.size, 3)).astype(np.float32)
    y = x @ np.array([1.0, -2.0, 0.5], np.float32) + rng.normal(size=len(x)).astype(np.float32) / 10
    start = jnp.zeros(3)
    by_pmap, by_shard_map = over_devices(mesh)
    spread = jax.device_put((x, y), NamedSharding(mesh, P(mesh.axis_names)))
    gradients = {
        "one_device": jax.jit(jax.grad(loss))(start, x, y),
        "pmap": by_pmap(start, x.reshape(mesh.size, -1, 3), y.reshape(mesh.size, -1)),
        "shard_map": by_shard_map(start, *spread),
        "auto": jax.jit(jax.grad(loss))(start, *spread),
    }

    weights, losses = start, []
    for _ in range(STEPS):
        losses.append(loss(weights, *spread))
        weights = weights - RATE * by_shard_map(weights, *spread)
    results: dict[str, jax.Array | str] = dict(gradients)
    single = np.asarray(gradients.pop("one_device"))
    for name, gradient in gradients.items():
        results[f"{name} against one device"] = (
            f"largest difference {np.abs(np.asarray(gradient) - single).max() / np.abs(single).max():.1e}"
        )
    results["losses"] = jnp.stack(losses)
    results["weights"] = weights
    results["least_squares"] = jnp.asarray(np.linalg.lstsq(x, y)[0])
    return results

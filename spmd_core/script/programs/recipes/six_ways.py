"""Eight dot products, six ways: vmap, pmap and what they make together with jit."""

import jax
import jax.numpy as jnp
import numpy as np


def dot(v, u):
    return jnp.vdot(v, u)


def six_ways(devices):
    """Name -> the mapped function. Only `pmap(vmap)` takes a leading axis of devices and then one of rows."""
    return {
        "vmap": jax.vmap(dot),
        "pmap": jax.pmap(dot, devices=devices),
        "pmap(vmap)": jax.pmap(jax.vmap(dot), devices=devices),
        "jit(vmap)": jax.jit(jax.vmap(dot)),
        "jit(pmap)": jax.jit(jax.pmap(dot, devices=devices)),
        "pmap(jit)": jax.pmap(jax.jit(dot), devices=devices),
    }


def draw(count):
    """Two stacks of `count` vectors, as (count, 3), from key 42."""
    rows = jax.random.normal(jax.random.key(42), (2 * count, 3))
    return rows[:count], rows[count:]


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    devices = list(mesh.devices.flat)
    with jax.threefry_partitionable(False):  # the random numbers of before JAX 0.5
        v, u = draw(len(devices))
    blocks = v.reshape(len(devices), -1, 3), u.reshape(len(devices), -1, 3)
    results: dict[str, jax.Array | str] = {}
    for name, mapped in six_ways(devices).items():
        results[name] = mapped(*(blocks if name == "pmap(vmap)" else (v, u)))
    exact = (np.asarray(v, np.float64) * np.asarray(u, np.float64)).sum(axis=1)
    errors = {
        name: np.abs(np.asarray(values).ravel() - exact).max() for name, values in results.items()
    }
    results["largest error against float64"] = (
        f"{max(errors.values()):.1e}, of {max(errors, key=errors.__getitem__)}"
    )
    results["with today's random numbers"] = jax.vmap(dot)(*draw(len(devices)))
    return results

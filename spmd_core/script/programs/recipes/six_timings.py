"""How long a call takes six ways, on operands that are placed where they are used; every call is waited for."""

from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

RUNS = 7
CALLS = 100


def dot(v, u):
    return jnp.vdot(v, u)


def measure(call, *arguments):
    """Seconds per call, one mean of CALLS calls for each run."""
    jax.block_until_ready(call(*arguments))  # compiles
    means = []
    for _ in range(RUNS):
        start = perf_counter()
        for _ in range(CALLS):
            jax.block_until_ready(call(*arguments))
        means.append((perf_counter() - start) / CALLS)
    return np.array(means)


def in_words(seconds):
    """Mean and standard deviation, then the median with its 95 % bootstrap interval, in microseconds."""
    micro = seconds * 1e6
    draws = np.random.default_rng(0).choice(micro, (2000, len(micro)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    spread = f"{micro.mean():.1f} µs ± {micro.std(ddof=1):.1f} µs per call ({RUNS} runs of {CALLS})"
    return f"{spread}; median {np.median(micro):.1f} µs [{low:.1f}, {high:.1f}]"


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    devices, axes = list(mesh.devices.flat), P(mesh.axis_names)
    rows = np.random.default_rng(0).normal(size=(2, len(devices), 3)).astype(np.float32)
    whole = tuple(jax.device_put(rows, devices[0]))
    spread = tuple(jax.device_put(part, NamedSharding(mesh, axes)) for part in rows)
    blocks = tuple(jax.device_put(part[:, None], NamedSharding(mesh, axes)) for part in rows)
    ways = {
        "vmap": (jax.vmap(dot), whole),
        "jit(vmap)": (jax.jit(jax.vmap(dot)), whole),
        "pmap": (jax.pmap(dot, devices=devices), spread),
        "jit(pmap)": (jax.jit(jax.pmap(dot, devices=devices)), spread),
        "pmap(jit)": (jax.pmap(jax.jit(dot), devices=devices), spread),
        "pmap(vmap)": (jax.pmap(jax.vmap(dot), devices=devices), blocks),
    }
    measured = {name: measure(call, *arguments) for name, (call, arguments) in ways.items()}
    return {name: in_words(seconds) for name, seconds in measured.items()}

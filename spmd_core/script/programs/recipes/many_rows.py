"""Many dot products of rank 3: which ways compute the same sums, and how long each takes."""

from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

ROWS = 1_000_000
CALLS = 9


def dot(v, u):
    return jnp.vdot(v, u)


def measure(call, *arguments):
    """Seconds of each of CALLS calls, the one that compiles left out."""
    jax.block_until_ready(call(*arguments))
    seconds = []
    for _ in range(CALLS):
        start = perf_counter()
        jax.block_until_ready(call(*arguments))
        seconds.append(perf_counter() - start)
    return np.array(seconds)


def in_words(seconds):
    """Mean and standard deviation, then the median with its 95 % bootstrap interval, in milliseconds."""
    milli = seconds * 1e3
    draws = np.random.default_rng(0).choice(milli, (2000, len(milli)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return f"{milli.mean():.2f} ms ± {milli.std(ddof=1):.2f} ms ({len(milli)} calls); median {np.median(milli):.2f} ms [{low:.2f}, {high:.2f}]"


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    devices, over_all = list(mesh.devices.flat), NamedSharding(mesh, P(mesh.axis_names))
    count = ROWS // len(devices) * len(devices)
    numbers = np.random.default_rng(42).standard_normal((2, count, 3), np.float32)
    whole = tuple(jax.device_put(part, devices[0]) for part in numbers)
    blocks = tuple(jax.device_put(part.reshape(len(devices), -1, 3), over_all) for part in numbers)
    ways = {
        "vmap": (jax.vmap(dot), whole),
        "jit(vmap)": (jax.jit(jax.vmap(dot)), whole),
        "pmap(vmap)": (jax.pmap(jax.vmap(dot), devices=devices), blocks),
        "pmap": (jax.pmap(dot, devices=devices), blocks),
    }
    exact = (numbers[0, :1000].astype(np.float64) * numbers[1, :1000]).sum(
        axis=1
    )  # the first thousand sums
    results: dict[str, jax.Array | str] = {}
    for name, (call, arguments) in ways.items():
        sums = call(*arguments)
        results[f"{name}: shape"] = str(sums.shape)
        if sums.size == count:
            error = np.abs(np.asarray(sums).ravel()[:1000] - exact).max()
            results[f"{name}: sums"] = (
                f"the same {count:,} sums, largest error of the first {len(exact)} is {error:.1e}"
            )
        else:
            results[f"{name}: sums"] = (
                f"NOT the same: {sums.size} sums, each over {count // sums.size * 3:,} products"
            )
        results[f"{name}: time"] = in_words(measure(call, *arguments))
    return results

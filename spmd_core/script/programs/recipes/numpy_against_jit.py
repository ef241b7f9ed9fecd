"""x @ x.T of a square matrix: numpy, jit on one device, on the CPU and over the mesh; the first call apart from the others."""

import warnings
from time import perf_counter

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

SIZE = 1000
CALLS = 10


def square(x):
    return jnp.dot(x, x.T)


def milliseconds(call, wait):
    """Milliseconds of one call; without waiting, of handing the work over."""
    start = perf_counter()
    result = call()
    if wait:
        jax.block_until_ready(result)
    taken = (perf_counter() - start) * 1e3
    jax.block_until_ready(result)
    return taken


def in_words(call):
    """The first call, which compiles; then the median of CALLS calls with waiting and without."""
    first = milliseconds(call, wait=True)
    waited, sent = (
        np.median([milliseconds(call, wait) for _ in range(CALLS)]) for wait in (True, False)
    )
    return f"first call {first:.2f} ms, then {waited:.2f} ms; not waited for: {sent:.2f} ms"


def cpu_backend_words():
    """What JAX prints for the old way to choose a backend."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            jax.jit(square, backend="cpu")  # pyright: ignore[reportCallIssue]
        except TypeError as error:
            return f"TypeError: {error}"
    return "; ".join(f"{one.category.__name__}: {one.message}" for one in caught) or "nothing"


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    host = np.random.default_rng(0).normal(size=(SIZE, SIZE)).astype(np.float32)
    rows = (
        mesh.axis_names if SIZE % mesh.size == 0 else ()
    )  # a size that does not divide stays replicated
    places = {
        "jit on one device": mesh.devices.flat[0],
        "jit on the CPU": jax.local_devices(backend="cpu")[0],
        "jit over the mesh": NamedSharding(mesh, P(rows or None)),
    }
    jitted = jax.jit(square)
    exact = host[0].astype(np.float64) @ host.T.astype(np.float64)
    scale = np.abs(exact).max()
    results: dict[str, jax.Array | str] = {"numpy": in_words(lambda: np.dot(host, host.T))}
    for name, place in places.items():
        x = jax.device_put(host, place)
        results[name] = in_words(lambda x=x: jitted(x))
        results[f"{name}: error"] = (
            f"{np.abs(np.asarray(jitted(x)[0]) - exact).max() / scale:.1e} of the largest element"
        )
    results["jit(..., backend='cpu')"] = cpu_backend_words()
    return results

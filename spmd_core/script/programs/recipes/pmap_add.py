"""a + b + c with a row of a and of c on each device, and b replicated on all of them."""

import jax
import jax.numpy as jnp
import numpy as np


def add(a, b, c):
    return a + b + c


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    rng = np.random.default_rng(0)
    a, b, c = rng.random((mesh.size, 3)), 4, rng.random((mesh.size, 3))
    mapped = jax.pmap(add, in_axes=(0, None, 0), devices=list(mesh.devices.flat))
    total = mapped(a, b, c)
    return {
        "a": jnp.asarray(a, jnp.float32),
        "total": total,
        "largest error against float64": f"{np.abs(np.asarray(total) - (a + b + c)).max():.1e}",
        "jaxpr": str(jax.make_jaxpr(mapped)(a, b, c)),
    }

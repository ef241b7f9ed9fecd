"""The least and the greatest element: of one array, of a batch by mistake, and of each array of the batch by vmap."""

import jax
import jax.numpy as jnp
import numpy as np

BATCH = 4


def min_max(x):
    return jnp.array([jnp.min(x), jnp.max(x)])


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    one = np.arange(6).reshape(2, 3)
    batch = np.arange(6 * BATCH).reshape(BATCH, 2, 3)
    mapped = jax.vmap(min_max)
    return {
        "one_array": min_max(one),
        "whole_batch": min_max(batch),
        "each_of_the_batch": mapped(batch),
        "jitted": jax.jit(mapped)(batch),
        "jaxpr": str(jax.make_jaxpr(min_max)(one)),
        "jaxpr of vmap": str(jax.make_jaxpr(mapped)(batch)),
        "jaxpr of jit(vmap)": str(jax.make_jaxpr(jax.jit(mapped))(batch)),
    }

"""Arrays do not change: assigning to a row is refused, `.at[].set` gives a new array."""

import jax
import jax.numpy as jnp

ROW = 1


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    zeros = jnp.zeros((3, 3), jnp.float32)
    try:
        zeros[ROW, :] = 1.0
        words = "no error"
    except TypeError as error:
        words = f"TypeError: {error}"
    return {"assignment": words, "before": zeros, "after": zeros.at[ROW, :].set(1.0)}

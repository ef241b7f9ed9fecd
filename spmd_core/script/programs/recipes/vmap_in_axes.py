"""a + b + c with the rows of a, the number b as it is, and the columns of c."""

import jax
import jax.numpy as jnp
import numpy as np

B = 2


def add(a, b, c):
    return a + b + c


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    a = np.arange(6).reshape(2, 3) + 10
    b = B
    c = np.arange(6).reshape(3, 2) + 20
    mapped = jax.vmap(add, in_axes=(0, None, 1))
    try:
        words = f"no error: {jax.vmap(add, in_axes=(0, None))(a, b, c)}"
    except ValueError as error:
        words = f"ValueError: {error}"
    return {
        "sum": jnp.asarray(mapped(a, b, c)),
        "a": jnp.asarray(a),
        "c": jnp.asarray(c),
        "jaxpr": str(jax.make_jaxpr(mapped)(a, b, c)),
        "two entries for three arguments": words,
    }

"""in_axes: which axis of each argument is spread over the devices; None replicates the argument on every device."""

import jax
import jax.numpy as jnp
import numpy as np


def refusal(call):
    try:
        return f"no error: {call()}"
    except ValueError as error:
        return f"{type(error).__name__}: {error}"


def sum_and_double(x, y):
    return x + y, y * 2.0


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    x, y = jnp.arange(2.0), 4.0
    added, doubled = jax.pmap(sum_and_double, in_axes=(0, None))(x, y)
    columns = jnp.arange(6.0).reshape(3, 2)
    return {
        "x_plus_y": added,
        "two_y": doubled,
        "columns_doubled": jax.pmap(lambda column: 2 * column, in_axes=1)(columns),
        "three entries for two arguments": refusal(
            lambda: jax.pmap(sum_and_double, in_axes=(0, None, 0))(x, y)
        ),
        "nothing mapped": refusal(lambda: jax.pmap(sum_and_double, in_axes=None)(x, y)),
        "rows that differ": refusal(lambda: jax.pmap(sum_and_double)(x, np.ones(3))),
    }

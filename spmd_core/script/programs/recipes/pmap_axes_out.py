"""out_axes and axis_size: where the mapped axis comes out, and how long it must be."""

import jax
import jax.numpy as jnp

DEVICES = 4


def refusal(call):
    try:
        return f"no error: {call()}"
    except ValueError as error:
        return f"{type(error).__name__}: {error}"


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    x = jnp.arange(float(DEVICES))

    def multiples(x):
        return x * jnp.array([1.0, 10.0, 100.0])

    return {
        "rows": jax.pmap(multiples)(x),
        "columns": jax.pmap(multiples, out_axes=1)(x),
        "one_total": jax.pmap(lambda x: jax.lax.psum(x, "i"), "i", out_axes=None)(x),
        f"axis_size_{DEVICES}": jax.pmap(lambda x: x + 1, axis_size=DEVICES)(x),
        f"axis_size {DEVICES} for a row less": refusal(
            lambda: jax.pmap(lambda x: x + 1, axis_size=DEVICES)(x[:-1])
        ),
        "axis_size alone": refusal(
            lambda: jax.pmap(lambda x: x + 1, in_axes=None, axis_size=DEVICES)(1.0)
        ),
    }

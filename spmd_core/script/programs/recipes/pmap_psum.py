"""Each number divided by the sum of all: the devices add theirs up with psum, over the axis that is named."""

from functools import partial

import jax
import jax.numpy as jnp

COUNT = 4


def share(x, axis):
    return x / jax.lax.psum(x, axis_name=axis)


def along(axis):
    """The shares of COUNT numbers, with the mapped axis named `axis`."""
    return jax.pmap(partial(share, axis=axis), axis_name=axis)(jnp.arange(float(COUNT)))


def refusal(call):
    try:
        return f"no error: {call()}"
    except ValueError as error:
        return f"ValueError: {error}"


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    shares = along("i")
    return {
        "shares": shares,
        "total": shares.sum(),
        "a number as the name": refusal(lambda: along(7)),
        "a tuple as the name": refusal(lambda: along(("i", 1))),
    }

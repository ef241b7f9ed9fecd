"""Each number divided by the sum of all: the devices add theirs up with psum, over the axis that is named."""

from functools import partial

import jax
import jax.numpy as jnp


def share(x, axis):
    return x / jax.lax.psum(x, axis_name=axis)


def along(axis):
    """The shares of four numbers, with the mapped axis named `axis`; the words of the error where JAX refuses the name."""
    try:
        return jax.pmap(partial(share, axis=axis), axis_name=axis)(jnp.arange(4.0))
    except (ValueError, TypeError) as error:
        return f"{type(error).__name__}: {error}"


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    shares = along("i")
    return {"shares": shares, "total": shares.sum(), "a number as the name": str(along(7)), "a tuple as the name": str(along(("i", 1)))}

"""One number per device, squared; and what pmap itself is by now."""

import inspect

import jax
import jax.numpy as jnp
import numpy as np


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    squares = jax.pmap(lambda x: x**2, devices=list(mesh.devices.flat))(jnp.arange(mesh.size))
    try:
        removed = str(jax.pmap(jnp.square, global_arg_shapes=None))  # pyright: ignore[reportCallIssue]
    except TypeError as error:
        removed = f"TypeError: {error}"
    return {
        "squares": squares,
        "arguments of pmap": ", ".join(inspect.signature(jax.pmap).parameters),
        "global_arg_shapes": removed,
        "backend='cpu'": str(jax.pmap(lambda x: x**2, backend="cpu")(np.array([3]))),
    }

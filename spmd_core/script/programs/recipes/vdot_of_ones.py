"""The dot product of two vectors, and the name that its result had once."""

import jax
import jax.numpy as jnp

LENGTH = 3


def dot(v, u):
    return jnp.vdot(v, u)


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    result = dot(jnp.ones(LENGTH), jnp.ones(LENGTH))
    try:
        old_name = repr(jnp.DeviceArray)  # pyright: ignore[reportAttributeAccessIssue]
    except AttributeError as error:
        old_name = f"AttributeError: {error}"
    return {
        "dot": result,
        "repr": repr(result),
        "is a jax.Array": str(isinstance(result, jax.Array)),
        "jnp.DeviceArray": old_name,
    }

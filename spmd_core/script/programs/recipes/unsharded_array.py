"""An unsharded array: all of it on one device."""

import jax
import jax.numpy as jnp


def program(mesh):
    arr = jnp.arange(32.0).reshape(4, 8)
    return {
        "arr": arr,
        "devices that hold it": str(len(arr.devices())),
        "sharding": type(arr.sharding).__name__,
        "memory kind": arr.sharding.memory_kind or jax.devices()[0].default_memory().kind,
    }

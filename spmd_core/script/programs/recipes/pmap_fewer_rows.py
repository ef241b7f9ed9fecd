"""Fewer rows than devices: pmap uses the first devices and leaves the others alone."""

import jax
import jax.numpy as jnp

ROWS = 3


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    x = jnp.arange(ROWS * 2 * 2.0).reshape(ROWS, 2, 2)
    products = jax.pmap(jnp.dot)(x, x**2)
    return {
        "products": products,
        "devices used": f"{len(products.devices())} of {jax.local_device_count()}",
    }

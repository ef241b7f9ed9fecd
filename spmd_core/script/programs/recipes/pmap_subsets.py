"""Two computations on devices of their own: six devices for one, the remaining two for the other."""

from functools import partial

import jax
import jax.numpy as jnp


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    devices = list(mesh.devices.flat)
    six, two = devices[:-2], devices[-2:]

    @partial(jax.pmap, axis_name="i", devices=six)
    def share(x):
        return x / jax.lax.psum(x, axis_name="i")

    @partial(jax.pmap, axis_name="i", devices=two)
    def sum_of_squares(x):
        return jax.lax.psum(x**2, axis_name="i")

    shares, squares = share(jnp.arange(float(len(six)))), sum_of_squares(jnp.array([2.0, 3.0]))
    try:
        twice = str(jax.pmap(jnp.square, devices=[devices[0]] * 2)(jnp.arange(2.0)))
    except ValueError as error:
        twice = f"ValueError: {error}"
    return {
        "shares": shares,
        "sum_of_squares": squares,
        "devices in common": str(len(shares.devices() & squares.devices())),
        "one device named twice": twice,
    }

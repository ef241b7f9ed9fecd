"""More rows than devices: pmap refuses, and a reshape mends it."""

import jax
import jax.numpy as jnp

BLOCK = 10


def refusal(call):
    try:
        return f"no error: {call()}"
    except ValueError as error:
        return f"{type(error).__name__}: {error}"


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    devices = list(mesh.devices.flat)
    square = jax.pmap(lambda x: x**2, devices=devices)
    dot = jax.pmap(jnp.vdot, devices=devices)
    many = jnp.ones((BLOCK * mesh.size, 3))
    in_blocks = many.reshape(mesh.size, -1, 3)
    return {
        "one row too many": refusal(lambda: square(jnp.arange(mesh.size + 1))),
        "ten times as many": refusal(lambda: dot(many, many)),
        "reshaped": str(in_blocks.shape),
        "a_sum_per_device": dot(in_blocks, in_blocks),
        "every_dot_product": jax.pmap(jax.vmap(jnp.vdot), devices=devices)(in_blocks, in_blocks),
    }

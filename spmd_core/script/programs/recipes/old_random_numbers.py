"""The numbers that the tutorials print came from another way to count: both are shown, without changing JAX for anybody else."""

import jax
import jax.numpy as jnp

SEED = 1337


def draws():
    """One number from a key, and ten from keys split off it."""
    key = jax.random.key(SEED)
    first, numbers = jax.random.uniform(key), []
    for _ in range(10):
        key, drawn_with = jax.random.split(key)
        numbers.append(jax.random.uniform(drawn_with))
    return first, jnp.stack(numbers)


def setting():
    """Whether JAX counts in today's way."""
    return jax.config.jax_threefry_partitionable  # pyright: ignore[reportAttributeAccessIssue]


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    before = setting()
    with jax.threefry_partitionable(False):
        old_first, old = draws()
    with jax.threefry_partitionable(True):
        new_first, new = draws()
    return {
        "old_first": old_first,
        "old": old,
        "new_first": new_first,
        "new": new,
        "jax_threefry_partitionable": f"{before} before, {setting()} after",
    }

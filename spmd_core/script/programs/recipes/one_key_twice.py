"""The same key gives the same number; more numbers need more keys, and split makes them."""

import jax
import jax.numpy as jnp

SEED = 1337


def ten_numbers(key):
    """Ten draws, each from a key split off for it."""
    numbers = []
    for _ in range(10):
        key, drawn_with = jax.random.split(key)
        numbers.append(jax.random.uniform(drawn_with))
    return jnp.stack(numbers)


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    key = jax.random.key(SEED)
    twice = [jax.random.uniform(key) for _ in range(2)]
    old_style = jax.random.PRNGKey(
        SEED
    )  # the key as two plain integers: still there, key() is the way now
    return {
        "the_same_twice": jnp.stack(twice),
        "ten_from_split_keys": ten_numbers(key),
        "PRNGKey gives the same": str(bool((ten_numbers(old_style) == ten_numbers(key)).all())),
    }

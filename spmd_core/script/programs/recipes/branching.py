"""A Python `if` on a traced value cannot be compiled; jnp.where, lax.cond or a static argument can."""

import jax
import jax.numpy as jnp

X = 3


def keep_or_double(x):
    if x > 0:
        return x
    return 2 * x


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    try:
        words = f"no error: {jax.jit(keep_or_double)(float(X))}"
    except jax.errors.ConcretizationTypeError as error:
        kind, parent = type(error).__mro__[:2]
        words = f"{kind.__name__} (a {parent.__name__}): {error}".strip()
    both = jnp.array([float(X), -float(X)])
    return {
        "without jit": str(keep_or_double(float(X))),
        "under jit": words,
        "where": jax.jit(lambda x: jnp.where(x > 0, x, 2 * x))(both),
        "cond": jax.jit(jax.vmap(lambda x: jax.lax.cond(x > 0, lambda x: x, lambda x: 2 * x, x)))(
            both
        ),
        "static_argnums": jax.jit(keep_or_double, static_argnums=0)(float(X)),
    }

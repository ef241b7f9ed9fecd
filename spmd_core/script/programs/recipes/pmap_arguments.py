"""Keyword, static and donated arguments of a pmapped function."""

import jax
import jax.numpy as jnp

EXPONENT = 3


def refusal(call):
    try:
        return f"no error: {call()}"
    except (TypeError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    x = jnp.arange(4.0)
    keyword = jax.pmap(lambda x, y: x + y, in_axes=(None,))
    power = jax.pmap(lambda x, exponent: x**exponent, static_broadcasted_argnums=1)
    apply = jax.pmap(lambda x, function: function(x), static_broadcasted_argnums=1)
    successor = jax.pmap(lambda x: x + 1, donate_argnums=0)
    given_away = jax.pmap(lambda x: x)(
        x
    )  # placed row by row: only such a buffer can be reused for the result
    after = successor(given_away)
    return {
        "keyword_is_mapped": keyword(10.0, y=x),
        "powers": power(x, EXPONENT),
        "sines": apply(x, jnp.sin),
        "after_donation": after,
        "a list is not hashable": refusal(lambda: power(x, [EXPONENT])),
        "the static argument left out": refusal(lambda: power(x)),
        "a word that is not static": refusal(
            lambda: jax.pmap(lambda x, word: x)(x, "three")
        ).replace("\n", " "),
        "the donated array": "deleted" if given_away.is_deleted() else "still there",
        "using it again": refusal(lambda: given_away + 1),
    }

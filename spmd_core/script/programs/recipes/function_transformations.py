"""A transformation takes a function and gives a function back: of any f, the sum of f(a) and f(b)."""

import jax
import jax.numpy as jnp

A = 3
B = 4


def sum_of(f):
    def added(a, b):
        return f(a) + f(b)

    return added


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    squares, cubes = sum_of(lambda x: x * x), sum_of(lambda x: x * x * x)
    return {
        "sum_of_squares": jnp.asarray(squares(A, B)),
        "sum_of_cubes": jnp.asarray(cubes(A, B)),
        "jit of the same": jax.jit(cubes)(A, B),
        "gradient_of_the_same": jax.grad(cubes)(float(A), float(B)),
    }

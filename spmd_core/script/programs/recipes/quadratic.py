"""2x² + 3x + 3: its value, its gradient, and what JAX makes of it before and after jit and grad."""

import jax
import jax.numpy as jnp

X = 3


def f(x):
    return 2 * x * x + 3 * x + 3


def refusal(call):
    try:
        return f"no error: {call()}"
    except TypeError as error:
        return f"TypeError: {error}"


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    gradient = jax.grad(f)
    value, slope = jax.value_and_grad(f)(float(X))
    return {
        "value": jnp.asarray(f(X)),
        "jitted": jax.jit(f)(X),
        "gradient": gradient(float(X)),
        "value_of_both": value,
        "gradient_of_both": slope,
        "curvature": jax.grad(gradient)(float(X)),
        "type of grad(f)": type(gradient).__name__,
        "jaxpr": str(jax.make_jaxpr(f)(X)),
        "jaxpr of jit(f)": str(jax.make_jaxpr(jax.jit(f))(X)),
        "jaxpr of grad(f)": str(jax.make_jaxpr(gradient)(float(X))),
        "grad of a whole number": refusal(lambda: gradient(X)),
    }

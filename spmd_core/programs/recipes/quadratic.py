"""2x² + 3x + 3: its value, its gradient, and what JAX makes of it before and after jit and grad."""

import jax
import jax.numpy as jnp


def f(x):
    return 2 * x * x + 3 * x + 3


def refusal(call):
    try:
        return f"no error: {call()}"
    except TypeError as error:
        return f"TypeError: {error}"


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    gradient = jax.grad(f)
    value, slope = jax.value_and_grad(f)(3.0)
    return {
        "value": jnp.asarray(f(3)),
        "jitted": jax.jit(f)(3),
        "gradient": gradient(3.0),
        "value_of_both": value,
        "gradient_of_both": slope,
        "curvature": jax.grad(gradient)(3.0),
        "type of grad(f)": type(gradient).__name__,
        "jaxpr": str(jax.make_jaxpr(f)(3)),
        "jaxpr of jit(f)": str(jax.make_jaxpr(jax.jit(f))(3)),
        "jaxpr of grad(f)": str(jax.make_jaxpr(gradient)(3.0)),
        "grad of a whole number": refusal(lambda: gradient(3)),
    }

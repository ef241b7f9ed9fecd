"""x² + y: argnums selects the argument that a gradient is taken in."""

import jax

X = 2
Y = 3


def f(x, y):
    return x**2 + y


def program(mesh: jax.sharding.Mesh) -> dict[str, jax.Array | str]:
    x, y = float(X), float(Y)
    value, in_x = jax.value_and_grad(f, argnums=0)(x, y)
    both = jax.grad(f, argnums=(0, 1))(x, y)
    (xx, xy), (yx, yy) = jax.hessian(f, argnums=(0, 1))(x, y)
    return {
        "value": value,
        "in_x": in_x,
        "in_y": jax.grad(f, argnums=1)(x, y),
        "both at once": f"{both[0]} and {both[1]}",
        "hessian": f"[[{xx} {xy}] [{yx} {yy}]]",
    }

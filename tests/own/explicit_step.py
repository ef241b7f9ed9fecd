"""A step with four sharding type errors under Explicit axes, for tests."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((4, 2), ("data", "tensor"))


def block(x, w):
    """Two matrices: the second contracts a sharded dim."""
    h = jnp.tanh(x @ w["up"])
    return (h @ w["down"]) * 2


def loss(params, tokens):
    """An embedding, two blocks, and a scan whose first carry is replicated."""
    emb = jax.lax.with_sharding_constraint(params["emb"], P(None, "tensor"))
    x = emb[tokens]
    for w in params["layers"]:
        x = x + block(x, w)

    def body(carry, w):
        return carry + jnp.tanh(x.sum(1) @ w), None

    y, _ = jax.lax.scan(body, jnp.zeros((8, 16)), params["stack"])
    return (x**2).mean() + y.mean()


def train(params, tokens):
    """Gradient descent."""
    grads = jax.grad(loss)(params, tokens)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def step():
    """The step, and its arguments."""

    def array(shape, *spec, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    layer = {"up": array((16, 32), None, "tensor"), "down": array((32, 16), "tensor")}
    stack = array((3, 16, 16), None, None, "tensor")
    params = {"emb": array((64, 16), "tensor"), "layers": [layer, layer], "stack": stack}
    return jax.jit(train), (params, array((8, 12), "data", dtype=jnp.int32))

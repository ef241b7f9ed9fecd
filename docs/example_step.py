"""A step to explain: `python -m spmd_core explain docs.example_step:step`."""

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P


def train_step(params, batch):
    """Gradient descent on two matrices."""

    def loss(params):
        hidden = jax.nn.relu(batch @ params["up"])
        return ((hidden @ params["down"]) ** 2).mean()

    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params))


def arguments():
    """Abstract arrays over 4 by 2 devices, of which none needs to be here."""
    mesh = AbstractMesh((4, 2), ("fsdp", "tensor"), axis_types=(AxisType.Auto,) * 2)

    def array(shape, *spec):
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))

    params = {
        "up": array((256, 1024), "fsdp", "tensor"),
        "down": array((1024, 256), "tensor", "fsdp"),
    }
    return params, array((64, 256), "fsdp")


def step():
    """The step, and its arguments."""
    return jax.jit(train_step), arguments()

"""A step of two matrices, on 8 devices, for the tests of explanations."""

import jax
import jax.numpy as jnp
from jax.sharding import AbstractMesh, AxisType, NamedSharding, PartitionSpec as P

SIZES, AXES = (4, 2), ("fsdp", "tensor")
TYPES = (AxisType.Auto,) * 2


def devices():
    """A mesh of the devices that are here."""
    return jax.make_mesh(SIZES, AXES, axis_types=TYPES)


def no_devices():
    """The same mesh, of no devices."""
    return AbstractMesh(SIZES, AXES, axis_types=TYPES)


def place(mesh, shape, *spec, dtype=jnp.float32):
    """An abstract array."""
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))


def arguments(mesh, up=("fsdp", "tensor")):
    """Parameters and batch."""
    params = {"up": place(mesh, (128, 512), *up), "down": place(mesh, (512, 128), "tensor", "fsdp")}
    return params, place(mesh, (64, 128), "fsdp")


def loss(params, x):
    """Two matrices under a scope."""
    with jax.named_scope("mlp"):
        h = jnp.tanh(x @ params["up"])
        return ((h @ params["down"]) ** 2).mean()


def train_step(params, x):
    """A step of gradient descent."""
    gradients = jax.grad(loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)

"""Functions of one's own, as a user declares them: one is right, one warns, one raises, one differs
between strategies.
"""

import jax
import jax.numpy as jnp

from spmd_core.declare import workload

COLS_AXES = ()


@workload(
    operands={"x": ("rows", "cols"), "scale": ("cols",)},
    results={"y": ("rows",)},
    defaults={"rows": 512, "cols": 64},
)
def scaled_norm(x, scale):
    return jnp.sqrt(((x * scale) ** 2).sum(axis=1))


def scaled_norm_shards(x, scale):
    return jnp.sqrt(((x * scale) ** 2).sum(axis=1))  # lacks the sum over COLS_AXES


@workload(
    operands={"x": ("rows", "cols")},
    results={"y": ("rows", "cols")},
    defaults={"rows": 64, "cols": 8},
)
def refused_softmax(x):
    raise ValueError("this function computes nothing of [64, 8]")


@workload(
    mesh={"fsdp": 4, "tensor": 2}, axes={"embed": "fsdp", "mlp": "tensor"}, donated=("params",)
)
def declared_step():
    params = {"up": jax.ShapeDtypeStruct((64, 256), "float32")}
    batch = jax.ShapeDtypeStruct((32, 64), "float32")
    rules = [(r"/up$", ("embed", "mlp")), (r"^x$", ("fsdp", None))]
    return (lambda params, x: x @ params["up"]), {"params": params, "x": batch}, rules

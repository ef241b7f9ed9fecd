"""FLOPs of a program, read off its module, against those that its shapes say."""

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from spmd_core.experiment import programs

pytestmark = pytest.mark.usefixtures("read_here")
MESH = abstract_mesh({"x": 4, "y": 2})


def array(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(MESH, P("x")))


def scanned(x, w):
    return jax.lax.scan(lambda x, _: (jnp.tanh(x @ w), None), x, None, length=5)[0]


def convolved(x, w):
    numbers = ("NHWC", "HWIO", "NHWC")
    return jax.lax.conv_general_dilated(x, w, (2, 2), "SAME", dimension_numbers=numbers)


def by_hand(x, w):
    local = lambda x, w: x @ jax.lax.all_gather(w, "x", tiled=True)  # noqa: E731
    specs = {"in_specs": (P("x"), P("x")), "out_specs": P("x")}
    return jax.shard_map(local, mesh=MESH, axis_names={"x"}, **specs)(x, w)


@pytest.mark.parametrize(
    ("step", "x", "w", "flops"),
    [
        (lambda x, w: x @ w, (8, 16), (16, 32), 2 * 8 * 16 * 32),
        (jax.jit(lambda x, w: jnp.einsum("bsd,bdf->bsf", x, w)), (8, 4, 16), (8, 16, 32), 2 * 8 * 4 * 16 * 32),
        (scanned, (8, 16), (16, 16), 5 * 2 * 8 * 16 * 16),
        (convolved, (8, 8, 8, 4), (4, 4, 4, 16), 2 * 8 * 4 * 4 * 16 * 4 * 4 * 4),
        (by_hand, (8, 16), (16, 32), 2 * 8 * 16 * 32),
    ],
)  # fmt: skip
def test_flops_are_those_of_its_products(step, x, w, flops):
    given = {"x": array(*x), "w": array(*w)}
    assert programs.take(written(lambda x, w: step(x, w), given)).flops == flops

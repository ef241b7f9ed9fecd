"""FLOPs of a program, read off its module, against those that its shapes say."""

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl
from jax.sharding import NamedSharding, PartitionSpec as P

from bench.exported import abstract_mesh, written
from bench.program_flops import CASES, OFF, K, M, N, alone, found
from spmd_core.workloads import programs

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
        (convolved, (8, 8, 8, 4), (4, 4, 4, 16), 2 * 8 * 14 * 14 * 16 * 4),  # of 16 x 16 positions these meet no padding
        (by_hand, (8, 16), (16, 32), 2 * 8 * 16 * 32),
    ],
)  # fmt: skip
def test_flops_are_those_of_its_products(step, x, w, flops):
    given = {"x": array(*x), "w": array(*w)}
    assert programs.take(written(lambda x, w: step(x, w), given)).flops == flops


@pytest.mark.parametrize(
    "name",
    [
        "another product by platform",
        "convolution, transposed",
        "ragged_dot",
        "ragged_dot, gradients",
        "ragged_dot, batched",
        "fft, real",
        "gather and scatter",
        "kernel without a stated cost",
        "flash attention, causal",
        "splash attention, a window",
        "grouped matmul kernel",
    ],
)
def test_flops_are_those_of_a_closed_formula(name):
    assert found(name) == pytest.approx(CASES[name][2], rel=OFF)


def test_rows_masked_by_hand_are_multiplied_by_every_matrix():
    """Windows that may overlap: no cumulative sum of group sizes."""

    def step(x, w, starts):
        at = jax.lax.broadcasted_iota(jnp.int32, (4, M, K), 1)
        kept = (starts[:, None, None] <= at) & (at < starts[:, None, None] + 8)
        return jnp.einsum("gmk,gkn->mn", jnp.where(kept, x[None], 0), w)

    given = {"x": alone(M, K), "w": alone(4, K, N), "starts": alone(4, dtype=jnp.int32)}
    assert programs.take(written(step, given)).flops == 4 * 2 * M * K * N


def causal(kernel_of_counts):
    """Steps of a grid of 4 x 4 by what a kernel computes in each, as `pl.when` or a loop."""
    return pl.pallas_call(
        kernel_of_counts,
        grid=(4, 4),
        in_specs=[pl.BlockSpec((128, 128), lambda i, j: (i, 0))] * 2,
        out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((512, 128), jnp.float32),
        cost_estimate=pl.CostEstimate(flops=7, bytes_accessed=0, transcendentals=0),
    )


def by_condition(x, w, out):
    @pl.when(pl.program_id(1) <= pl.program_id(0))
    def _():
        out[...] = jnp.dot(x[...], w[...], preferred_element_type=jnp.float32)


def by_loop(x, w, out):
    def add(_, total):
        return total + jnp.dot(x[...], w[...], preferred_element_type=jnp.float32)

    out[...] = jax.lax.fori_loop(0, pl.program_id(0), add, jnp.zeros((128, 128)))


def by_data(x, w, out):
    @pl.when(x[0, 0] > 0)
    def _():
        out[...] = jnp.dot(x[...], w[...], preferred_element_type=jnp.float32)


@pytest.mark.parametrize(("kernel", "products"), [(by_condition, 10), (by_loop, 24), (by_data, 16)])
def test_a_kernel_counts_the_products_of_the_steps_that_compute_them(kernel, products):
    step = lambda x, w: causal(kernel)(x, w)  # noqa: E731
    given = {"x": alone(512, 128), "w": alone(512, 128)}
    assert programs.take(written(step, given, ("tpu",))).flops == products * 2 * 128**3


def test_a_kernel_that_cannot_be_counted_has_what_it_states():
    def copied(x, w, out):
        out[...] = x[...]

    step = lambda x, w: causal(copied)(x, w)  # noqa: E731
    given = {"x": alone(512, 128), "w": alone(512, 128)}
    assert programs.take(written(step, given, ("tpu",))).flops == 7

"""Values near a dtype's smallest numbers: their rounding is absolute, and zeros are wrong."""

import jax.numpy as jnp
import numpy as np
import pytest

from spmd_core.reference import TINY
from spmd_core.reference.bounds import FACTOR
from tests.engine.exported.test_sums import array, judged
from tests.engine.measured.test_rounding_noise import spread_of

pytestmark = [pytest.mark.this_python, pytest.mark.usefixtures("read_here")]

SMALL = 2.0**-12  # of operands near 0.02: 80 of the smallest numbers of float16
PLACE = TINY["float16"] / SMALL  # a last place there, of a result that is enlarged again
LESS = 2.0 ** -(np.arange(64) // 8)  # down to where float16 gives 0 of what is not
STEPS = {
    "product": lambda values: values * (SMALL * LESS).astype(values.dtype),
    "quotient": lambda values: values / 2**6 / (2**6 / LESS).astype(values.dtype),
    "cast": lambda values: (values.astype(jnp.float32) * SMALL * LESS).astype(values.dtype),
    "sum": lambda values: (values * SMALL).reshape(64, 16, 4).sum(2),
}


def enlarged(step):
    return lambda values: step(values).astype(jnp.float32) / SMALL


@pytest.mark.parametrize("name", STEPS)
def test_what_is_rounded_near_0_may_be_a_last_place_off(name):
    step = enlarged(STEPS[name])
    right, judge = judged(step, lambda mesh: {"values": array(mesh, (64, 64), "float16", "x")}, 8)
    assert judge(np.array).wrong == 0
    for places in (-1, 1):
        shifted = right.judge(right.values + places * PLACE)
        assert (shifted.wrong, shifted.unjudged) == (0, 0)
    assert right.judge(right.values + 40 * PLACE).wrong == right.values.size


def test_a_masked_value_is_0_exactly():
    def step(values):
        kept = jnp.arange(64) % 2
        return (values * kept.astype(values.dtype)).astype(jnp.float32)

    _, judge = judged(step, lambda mesh: {"values": array(mesh, (64, 64), "float16", "x")}, 8)
    assert judge(np.array).wrong == 0
    assert judge(lambda each: each + np.float32(PLACE * SMALL)).wrong >= 64 * 32


def test_a_quotient_by_0_is_infinite_in_the_reference_too():
    right, judge = judged(
        lambda values: 1 / (values * 0), lambda mesh: {"values": array(mesh, (64,), "float16")}, 1
    )
    assert np.isinf(right.values).all() and judge(np.array).wrong == 0


@pytest.mark.parametrize("name", ["product", "quotient"])
def test_both_judges_spread_a_value_near_0_alike(name):
    values = np.abs(np.random.default_rng(0).normal(size=(64, 64))).astype(np.float16)
    _, own = spread_of(enlarged(STEPS[name]), values, dtype="float16")
    small = values < 1 / 2
    assert 0.2 * PLACE < own[small].mean() < 2 * PLACE
    assert FACTOR * own[small].max() > PLACE

"""How far rounding spreads a function: by float64 with noise, against what the same function gives
in the dtype."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from spmd_core.engine.measured.rounding_noise import Noise, spread
from spmd_core.reference.bounds import EPS, FACTOR, Arithmetic
from tests.cover import cover

pytestmark = pytest.mark.this_python


def spread_of(function, *operands, dtype="float32"):
    with jax.enable_x64(True):
        wide = [jnp.asarray(operand, np.float64) for operand in operands]
        value = np.asarray(function(*wide))
        (found,) = spread(function, wide, [value], Noise(Arithmetic(dtype), 8), seed=0)
    return value, found


def looping(x):
    def step(carry, row):
        carry = jnp.tanh(carry + row)
        return carry, carry

    return jax.lax.scan(step, jnp.zeros(x.shape[1:], x.dtype), x)[1]


def turning(x):
    grown = jax.lax.while_loop(
        lambda state: state[0] < 5, lambda state: (state[0] + 1, state[1] * 1.5), (0, x)
    )[1]
    return jax.lax.cond(True, jnp.sin, jnp.cos, grown)


FUNCTIONS = {
    "norm": lambda x: jnp.sqrt((x**2).sum(axis=1)),
    "product": lambda x: x @ x.T,
    "softmax": lambda x: jax.nn.softmax(x, axis=0),
    "cumsum": lambda x: jnp.cumsum(x, axis=1),
    "standardized": lambda x: (x - x.mean()) / x.std(),
    "gelu": jax.nn.gelu,
    "scan": looping,
    "while-cond": turning,
    "remat": jax.checkpoint(jnp.sin),
}


@pytest.mark.parametrize(("name", "dtype"), cover(FUNCTIONS, ["float32", "bfloat16", "float16"]))
def test_what_a_dtype_gives_is_within_the_spread_and_a_tenth_more_is_not(name, dtype):
    function = FUNCTIONS[name]
    x = np.asarray(np.random.default_rng(0).normal(size=(16, 16)), jnp.dtype(dtype))
    value, found = spread_of(function, x.astype(np.float64), dtype=dtype)
    allowed = EPS[dtype] * np.abs(value) + FACTOR * found
    given = np.asarray(jax.jit(function)(x)).astype(np.float64)
    assert (np.abs(given - value) <= allowed).all()
    if dtype == "float32":
        assert (np.abs(0.1 * value) > allowed).mean() > 0.9


def test_a_copy_is_exact_and_cancellation_is_not():
    x = np.linspace(1, 2, 8)
    assert not spread_of(lambda x: x.reshape(2, 4).T, x)[1].any()
    value, found = spread_of(lambda x: (x * 3 + 1e4) - 1e4, x)
    assert (found > EPS["float32"] * 1e3).all() and (value < 10).all()


def test_sums_spread_by_partial_sums_that_cancel():
    """Half of it is large, the other half takes it back: partial sums of eight devices are
    large, the sum is small."""
    x = np.concatenate([np.full(64, 1000.0), np.full(64, -1000.0)])
    _, found = spread_of(lambda x: x.sum(keepdims=True), x, dtype="bfloat16")
    assert found[0] > EPS["bfloat16"] * 16_000


def test_what_is_beyond_the_dtype_on_the_way_is_lost():
    assert np.isinf(spread_of(lambda x: x * 300 / 300, np.array([300.0]), dtype="float16")[1]).all()
    assert np.isfinite(spread_of(lambda x: x * 300 / 300, np.array([300.0]))[1]).all()


def test_what_only_some_partial_sums_pass_is_lost_where_these_are_kept_in_float16():
    x = np.concatenate([np.full(64, 1500.0), np.full(64, -1500.0)])
    assert np.isinf(spread_of(lambda x: x.sum(keepdims=True), x, dtype="float16")[1]).all()
    assert np.isfinite(spread_of(lambda x: x.sum(keepdims=True), x, dtype="bfloat16")[1]).all()


def test_infinity_that_decides_nothing_leaves_the_spread():
    """tanh of what float16 holds as infinity is 1, as that of the number is."""
    found = spread_of(lambda x: jnp.tanh(x * 300), np.array([300.0]), dtype="float16")[1]
    assert (found < 1e-2).all()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("running", [jax.lax.cumsum, jax.lax.cumlogsumexp, jax.lax.cumprod])
@pytest.mark.parametrize("data", ["normal", "ones"])
def test_a_scan_that_rounds_at_every_step_is_within_the_spread(running, reverse, data):
    """One that stops where a term is too small beside the sum, too."""
    dtype = jnp.bfloat16
    drawn = np.random.default_rng(0).normal(size=1024) if data == "normal" else np.ones(1024)
    x = np.asarray(1 + drawn / 256 if running is jax.lax.cumprod else drawn, dtype)
    step = {
        jax.lax.cumsum: np.add,
        jax.lax.cumprod: np.multiply,
        jax.lax.cumlogsumexp: lambda a, b: np.asarray(
            np.logaddexp(np.float64(a), np.float64(b)), dtype
        ),
    }[running]
    terms = x[::-1] if reverse else x
    given = np.array(list(itertools.accumulate(terms, step)), dtype).astype(np.float64)
    given = given[::-1] if reverse else given
    value, found = spread_of(
        lambda x: running(x, reverse=reverse), x.astype(np.float64), dtype="bfloat16"
    )
    assert (np.abs(given - value) <= EPS["bfloat16"] * np.abs(value) + FACTOR * found).all()


def test_of_millions_of_elements_none_moves_by_less_than_its_size_gives_reason_to():
    """In few runs, some of them hardly move."""
    x = np.random.default_rng(0).normal(size=(1024, 2048))
    value, found = spread_of(lambda x: jnp.exp(x) / 3 * x, x, dtype="bfloat16")
    assert (found > 0.5 * EPS["bfloat16"] * np.abs(value)).all()

"""How far rounding spreads what a function computes: the function in float64, with noise where a
program would round.

There is no formula of a user's own function to carry spreads through. So every operation of its
jaxpr is given noise of
one eps, at random: on what it returns, and on the terms of what it adds up, one by one and in
blocks as devices hold them; a running sum carries what its steps round. What the result then moves
by, at the root of its mean square over some runs, is its spread. Cancellation, conditions and steep
places need no rule of their own. Where it is another one without the dtype's largest number, its
spread is infinite.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spmd_core.engine.noise import Noise, Signs, Sums, drawn_noise
from spmd_core.reference import LARGEST

Values = list[Any]
RUNS = ((2**20, 16), (math.inf, 8))  # (elements up to, runs with noise): fewer where they take long
_AS_IS = np.zeros(3)  # levels of sums that are rounded at every term
UNLIMITED_RUNS = 2  # runs that are repeated as if the dtype had no largest number
# Of few runs some of a million elements move by little: the share of them that sets what each
# moves by at least, for its size.
STILLEST = 0.1
# operations that move, choose or compare: nothing is rounded
_EXACT = frozenset(
    (
        "abs",
        "argmax",
        "argmin",
        "bitcast_convert_type",
        "broadcast_in_dim",
        "clamp",
        "concatenate",
        "convert_element_type",
        "copy",
        "copy_p",
        "cummax",
        "cummin",
        "device_put",
        "dynamic_slice",
        "dynamic_update_slice",
        "expand_dims",
        "gather",
        "iota",
        "max",
        "min",
        "neg",
        "pad",
        "reduce_max",
        "reduce_min",
        "reshape",
        "rev",
        "scatter",
        "select_n",
        "sign",
        "slice",
        "sort",
        "split",
        "squeeze",
        "stop_gradient",
        "transpose",
    )
)
_ADDING = frozenset(
    (
        "add_any",
        "conv_general_dilated",
        "cumlogsumexp",
        "cumprod",
        "cumsum",
        "dot_general",
        "reduce_prod",
        "reduce_sum",
        "reduce_window",
        "reduce_window_sum",
        "scatter-add",
        "scatter_add",
    )
)
# of which XLA may round every partial sum to the dtype
_STEPWISE = frozenset(("reduce_window_sum", "scatter-add", "scatter_add"))
_CALLING = frozenset(
    (
        "checkpoint",
        "closed_call",
        "core_call",
        "custom_jvp_call",
        "custom_vjp_call",
        "custom_vjp_call_jaxpr",
        "jit",
        "pjit",
        "remat",
        "remat2",
    )
)
_CALLED = ("jaxpr", "call_jaxpr", "fun_jaxpr")  # the parameter that has what they call


def spread(
    function: Callable[..., Any],
    operands: Sequence[Any],
    values: Sequence[np.ndarray],
    noise: Noise,
    seed: int,
) -> list[np.ndarray]:
    """By how much `values`, which the function returns of the operands, move with noise:
    element by element, infinite where lost."""
    run = noisy(function, operands, noise)
    largest = LARGEST[noise.how.dtype]
    finite = [
        jnp.nan_to_num(operand, nan=np.nan, posinf=2 * largest, neginf=-2 * largest)
        for operand in operands
    ]
    rows = rows_of_noise(operands, values, seed)
    squares = [np.zeros(value.shape) for value in values]
    with np.errstate(all="ignore"):
        for number, row in enumerate(rows):
            results, _ = run(row, largest, _AS_IS, *operands)
            free = run(row, np.inf, _AS_IS, *finite)[0] if number < UNLIMITED_RUNS else results
            for at, value in enumerate(values):
                moved = np.asarray(results[at], np.float64)
                apart = np.nan_to_num((moved - value) ** 2, nan=np.inf, posinf=np.inf)
                # what is beyond the dtype decides it
                apart = np.where(np.equal(moved, free[at]), apart, np.inf)
                squares[at] = squares[at] + np.where(np.isfinite(value), apart, 0.0)
        return [
            _not_too_still(np.sqrt(each / len(rows)), np.abs(value))
            for each, value in zip(squares, values, strict=True)
        ]


def noisy(function: Callable[..., Any], operands: Sequence[Any], noise: Noise) -> Any:
    """(row of noise, largest number, levels of sums, *operands) -> results, and how many terms the
    longest sum has that may be rounded at every term."""
    traced = jax.make_jaxpr(function)(*operands)

    def run(row: Any, largest: Any, sums: Any, *values: Any) -> tuple[Values, Any]:
        counts: list[Any] = []
        changed = Noise(noise.how, noise.devices, largest, *sums, counts=counts)
        results = _evaluate(traced.jaxpr, traced.consts, values, Signs(row), changed)
        return results, jnp.stack([0.0, *(each.max(initial=0.0) for each in counts)]).max()

    return jax.jit(run)


def rows_of_noise(operands: Sequence[Any], values: Sequence[np.ndarray], seed: int) -> np.ndarray:
    """A row of noise for each run, fewer runs of a large function."""
    size = sum(np.size(operand) for operand in operands) + sum(value.size for value in values)
    return drawn_noise(seed, next(runs for most, runs in RUNS if size <= most))


def _not_too_still(spread: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Spreads, at least as large for an element's size as those of the stillest share of all."""
    kept = np.isfinite(spread) & np.isfinite(size) & (size > 0)
    if not kept.any():
        return spread
    return np.maximum(spread, np.quantile(spread[kept] / size[kept], STILLEST) * size)


def _evaluate(
    jaxpr: Any, consts: Sequence[Any], operands: Sequence[Any], signs: Signs, noise: Noise
) -> Values:
    """The equations of a jaxpr, one after the other; the values that it returns."""
    known = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *operands), strict=True))

    def read(atom: Any) -> Any:
        return atom.val if hasattr(atom, "val") else known[atom]

    for number, equation in enumerate(jaxpr.eqns):
        given = [read(atom) for atom in equation.invars]
        returned = _apply(equation, given, signs.other(number), noise)
        known.update(zip(equation.outvars, returned, strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _apply(equation: Any, given: Values, signs: Signs, noise: Noise) -> Values:
    """What one equation returns: functions that it calls are gone through, loops and branches
    with noise in their bodies."""
    name, params = equation.primitive.name, equation.params
    if name in ("scan", "while", "cond"):  # whose counts cannot leave them
        noise = replace(noise, counts=None)
    if name == "scan":
        return _scan(equation, given, signs, noise)
    if name == "while":
        return _while(params, given, signs, noise)
    if name == "cond":
        branches = [_closed(branch, signs, noise) for branch in params["branches"]]
        return list(jax.lax.switch(given[0], branches, *given[1:]))
    if name in _CALLING:
        called = next(params[word] for word in _CALLED if word in params)
        return _closed(called, signs, noise)(*given)
    if name in _ADDING:
        axes = _summed_axes(equation)
        multiplied = name in ("dot_general", "conv_general_dilated")
        given = [
            noise.term(value, over, multiplied, signs.other(2 + at))
            for at, (value, over) in enumerate(zip(given, axes, strict=False))
        ] + given[len(axes) :]
    returned = _bound(equation, given)
    if name in _EXACT:
        return returned
    if name in _ADDING and noise.sums_overflow:
        some = noise.some(given[0], axes[0], signs.other(97))  # pyrefly: ignore[unbound-name]
        returned = [
            noise.limited(value, by=part)
            for value, part in zip(returned, _bound(equation, [some, *given[1:]]), strict=True)
        ]
    if name in _STEPWISE:
        returned = [_stepwise(equation, given, returned[0], noise, signs.other(98))]
    if name.startswith("cum"):
        way = params["axis"], params["reverse"], name == "cumprod"
        returned = [noise.running(returned[0], *way, signs.other(98))]
    if name == "logistic":  # 0 where the exponential in it is beyond the dtype
        returned[0] = returned[0] + signs.other(99).of(returned[0].shape) / LARGEST[noise.how.dtype]
    return [noise.rounded(value, signs.other(100 + at)) for at, value in enumerate(returned)]


def _stepwise(equation: Any, given: Values, total: Any, noise: Noise, signs: Signs) -> Any:
    """A sum of which every step may be rounded; its terms are the last operand."""
    *rest, terms = given
    start = rest[0] if rest else jnp.zeros((), total.dtype)
    nothing = [jnp.zeros_like(start), *rest[1:]] if rest else []
    changed = jnp.ones_like(terms), jnp.abs(terms), terms * terms
    count, size, squares = (_bound(equation, [*nothing, each])[0] for each in changed)
    if noise.counts is not None:
        noise.counts.append(count)
    return noise.stepwise(total, Sums(count, total - start, size, squares, start), signs)


def _bound(equation: Any, given: Values) -> Values:
    outputs = equation.primitive.bind(*given, **equation.primitive.get_bind_params(equation.params))
    return list(outputs) if equation.primitive.multiple_results else [outputs]


def _closed(called: Any, signs: Signs, noise: Noise) -> Callable[..., Values]:
    jaxpr, consts = (called.jaxpr, called.consts) if hasattr(called, "consts") else (called, ())
    return lambda *values: _evaluate(jaxpr, consts, values, signs, noise)


def _scan(equation: Any, given: Values, signs: Signs, noise: Noise) -> Values:
    """A loop over rows. What it takes and returns row by row is what its body has with one dim
    less: JAX 0.10 counts the others in parameters that 0.12 does not have.
    """
    params, body = equation.params, equation.params["jaxpr"]
    carried = len(equation.outvars) - _rows(equation.outvars, body.out_avals)
    fixed = len(given) - _rows(equation.invars, body.in_avals) - carried

    def step(carry: Any, inputs: Any) -> Any:
        at, values = carry
        outputs = _closed(body, signs.other(at), noise)(*given[:fixed], *values, *inputs)
        return (at + 1, outputs[:carried]), outputs[carried:]

    start, inputs = given[fixed : fixed + carried], given[fixed + carried :]
    (_, last), stacked = jax.lax.scan(
        step, (jnp.int32(0), start), inputs, params["length"], params["reverse"]
    )
    return [*last, *stacked]


def _rows(outside: Sequence[Any], inside: Sequence[Any]) -> int:
    """How many of these arrays have one dim less inside a loop's body."""
    pairs = zip(outside, inside, strict=True)
    return sum(len(array.aval.shape) != len(row.shape) for array, row in pairs)


def _while(params: Any, given: Values, signs: Signs, noise: Noise) -> Values:
    of_test, of_body = params["cond_nconsts"], params["body_nconsts"]
    test, body = params["cond_jaxpr"], params["body_jaxpr"]
    test_fixed, body_fixed, start = (
        given[:of_test],
        given[of_test : of_test + of_body],
        given[of_test + of_body :],
    )

    def step(state: Any) -> Any:
        at, values = state
        return at + 1, _closed(body, signs.other(at), noise)(*body_fixed, *values)

    def goes_on(state: Any) -> Any:
        return _closed(test, signs, noise)(*test_fixed, *state[1])[0]

    return list(jax.lax.while_loop(goes_on, step, (jnp.int32(0), list(start)))[1])


def _summed_axes(equation: Any) -> list[tuple[int, ...]]:
    """Of each operand that an equation adds up, the axes that it does so over."""
    name, params = equation.primitive.name, equation.params
    if name == "dot_general":
        return [tuple(axes) for axes in params["dimension_numbers"][0]]
    if name in ("reduce_sum", "reduce_prod"):
        return [tuple(params["axes"])]
    if name.startswith("cum"):
        return [(params["axis"],)]
    return [() for _ in equation.invars]

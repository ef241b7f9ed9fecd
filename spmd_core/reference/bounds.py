"""Values in float64 beside how far rounding may spread them: the arithmetic of the reference, in
plain NumPy.

A program rounds as it goes, and each step of it spreads its values a little. Here every value is
carried with its
`spread`, and independent spreads add as the root of the sum of their squares. A value counts as
right within
eps |value| of its own rounding and FACTOR times its spread. Exported scripts contain this text: it
needs NumPy alone.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# spreads that still count as rounding: one rounding errs by 2 at most, and sums of many by a normal
# law, of which 8 spreads are 7 standard deviations or more
FACTOR = 8.0
# spread of one rounding, in eps: it is at most eps / 2, and eps / sqrt(12) at the root of its mean
# square
ROUNDING = 0.25
# the share of spreads that adds up with one sign: equal terms round alike, four times in a row by
# eps / 2 each: 4 eps / 2 = FACTOR * ALIKE * sqrt(4) * ROUNDING eps
ALIKE = 0.5
# spread of a float32 sine, exponential or the like, in eps of float32: libraries differ by a few
# units in the last place
FUNCTION = 1.0
EPS = {
    "float32": 2.0**-23,
    "bfloat16": 2.0**-7,
    "float16": 2.0**-10,
    "tfloat32": 2.0**-10,
    "int32": 0.0,
    "int8": 0.0,
}
TINY = {
    "float32": 2.0**-126,
    "bfloat16": 2.0**-126,
    "float16": 2.0**-24,
}  # what is lost near 0: what some hardware takes for 0; a last place
LARGEST = {
    "float32": (2 - 2.0**-23) * 2.0**127,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
    "float16": 65504.0,
}


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How a program computes: what it rounds to which dtype."""

    dtype: str  # of results, and of what the program keeps between its steps
    multiplier: float = (
        0.0  # eps of what the multiplier rounds its inputs to; 0: it takes them as they are
    )
    parts: tuple[
        tuple[str, int], ...
        # (dim, parts): its sums are added from so many partial sums, each rounded to the dtype
        # first
    ] = ()
    axes: tuple[int, ...] = ()  # positions, in the first operand, of the dims that are summed over
    rate: float = 0.0  # of a step of gradient descent
    causal: bool = True  # of attention: a query's keys are those up to its own position

    @property
    def eps(self) -> float:
        """Of the dtype: twice the largest relative error of one rounding."""
        return EPS[self.dtype]

    def partial_sums(self, *dims: str) -> int:
        """How many partial sums make a sum over these dims."""
        return int(np.prod([size for dim, size in self.parts if dim in dims], initial=1))


@dataclass(frozen=True, slots=True)
class Bounded:
    """Values, and how far rounding spreads each: arrays of one shape, in float64. No spread:
    exact."""

    value: np.ndarray
    spread: np.ndarray | None = None

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> "Bounded":
        """Picked, turned or reshaped, spreads as values."""
        return Bounded(change(self.value), None if self.spread is None else change(self.spread))

    @property
    def squared_spread(self) -> np.ndarray | float:
        """Its square: what adds up; 0 where exact."""
        return 0.0 if self.spread is None else self.spread**2

    def widened(self, *squares: np.ndarray | float) -> "Bounded":
        """Further spread by independent amounts, given as squares."""
        return Bounded(
            self.value,
            np.sqrt(np.broadcast_to(self.squared_spread + sum(squares), self.value.shape)),
        )


def exact(array: np.ndarray) -> Bounded:
    """An operand: bfloat16, float16 and float32 have exact values in float64."""
    return Bounded(array.astype(np.float64))


def rounded(x: Bounded, how: Arithmetic) -> Bounded:
    """Kept in the program's dtype between two steps. What may be beyond the dtype's largest
    number may be anything from there on."""
    over = FACTOR * np.sqrt(x.squared_spread) + np.abs(x.value) > LARGEST[how.dtype]
    bounded = x.widened((ROUNDING * how.eps * x.value) ** 2, TINY[how.dtype] ** 2)
    return Bounded(bounded.value, np.where(over, np.inf, np.sqrt(bounded.squared_spread)))


def plus(a: Bounded, b: Bounded) -> Bounded:
    """a + b."""
    return Bounded(a.value + b.value).widened(a.squared_spread, b.squared_spread)


def times(a: Bounded, b: Bounded | float) -> Bounded:
    """a * b, element by element."""
    if not isinstance(b, Bounded):
        return Bounded(a.value * b, None if a.spread is None else a.spread * abs(b))
    return Bounded(a.value * b.value).widened(
        a.squared_spread * b.value**2, b.squared_spread * a.value**2
    )


def through(
    function: Callable[[np.ndarray], np.ndarray], x: Bounded, how: Arithmetic | None = None
) -> Bounded:
    """function(x), element by element: spread by as much as the function moves within FACTOR
    spreads of x, and by its own rounding.

    `how` None: the function is one that rounds nothing, such as a maximum.
    """
    value = function(x.value)
    spread = np.zeros_like(value)
    if x.spread is not None:
        moved = [np.abs(function(x.value + sign * FACTOR * x.spread) - value) for sign in (1, -1)]
        # of an infinite spread: it may be no number at all
        spread = np.where(np.isinf(x.spread), np.inf, np.fmax(*moved) / FACTOR)
    bounded = Bounded(value, spread)
    return (
        bounded
        if how is None
        else rounded(bounded.widened((FUNCTION * EPS["float32"] * value) ** 2), how)
    )


def matmul(a: Bounded, b: Bounded, how: Arithmetic, parts: int = 1) -> Bounded:
    """a @ b, (…, m, k) by (…, k, n), added in float32 from `parts` partial sums along k, each
    rounded to the dtype.

    spread² = (eps_mul + eps_acc sqrt(k))² sum (a b)²: the multiplier's inputs, and float32 sums
    of k terms, a random walk
    + (eps_acc sqrt(k) value)²: terms of one sign, whose partial sums are as large as the sum
    + (eps_out)² sum of the partial sums' squares, where there are several
    + what comes with a and b: sum (spread_a b)², and where terms round alike, with the signs of
    their values or all with one: (ALIKE sum spread_a |a|/a b)² + (ALIKE sum spread_a b)²; so of b.
    """
    terms = a.value.shape[-1]
    walk = EPS["float32"] * np.sqrt(terms)
    value, squares, over = _in_parts(a.value, b.value, how, parts)
    own = ((how.multiplier + walk) * a.value) ** 2 + a.squared_spread
    spread = own @ b.value**2 + (walk * value) ** 2 + how.eps**2 * squares
    if a.spread is not None:
        spread += (ALIKE * (np.copysign(a.spread, a.value) @ b.value)) ** 2
        spread += (ALIKE * (a.spread @ b.value)) ** 2
    if b.spread is not None:
        spread += a.value**2 @ b.spread**2
        spread += (ALIKE * (a.value @ np.copysign(b.spread, b.value))) ** 2
        spread += (ALIKE * (a.value @ b.spread)) ** 2
    return Bounded(
        value, np.where(over | (np.isnan(spread) & np.isfinite(value)), np.inf, np.sqrt(spread))
    )


def _in_parts(
    a: np.ndarray, b: np.ndarray, how: Arithmetic, parts: int
) -> tuple[np.ndarray, np.ndarray | float, np.ndarray | bool]:
    """The product, the sum of its partial sums' squares, and where some of them together may be
    beyond the dtype; of one part, nothing of these."""
    if parts == 1:
        return a @ b, 0.0, False
    value, squares, size = np.zeros(()), np.zeros(()), np.zeros(())
    for left, right in zip(
        np.array_split(a, parts, axis=-1), np.array_split(b, parts, axis=-2), strict=True
    ):
        part = left @ right
        value, squares, size = value + part, squares + part**2, size + np.abs(part)
    return value, squares, size > LARGEST[how.dtype]


def total(x: Bounded, how: Arithmetic, parts: int = 1) -> Bounded:
    """The sum over the first axis, (k, …) to (…), with the rule of `matmul`; nothing is
    multiplied."""
    plain = Arithmetic(how.dtype)
    flat = x.each(lambda array: array.reshape(array.shape[0], -1).T)
    ones = Bounded(np.ones((x.value.shape[0], 1)))
    return matmul(flat, ones, plain, parts).each(lambda array: array.reshape(x.value.shape[1:]))


def bound(x: Bounded, how: Arithmetic) -> np.ndarray:
    """The largest error of a result that still counts as right, element by element; infinite
    where there is no bound."""
    limit = (
        how.eps * np.abs(x.value) + FACTOR * np.sqrt(x.squared_spread) + TINY.get(how.dtype, 0.0)
    )
    return np.where(np.isnan(limit) & np.isfinite(x.value), np.inf, limit)


def resolved(x: Bounded) -> Bounded:
    """A result, its spread infinite where there is no bound: where rounding spreads an element
    as far as the values are from one another and from 0, since any of them would be right there;
    and everywhere, where zeros would be right wherever there is a bound."""
    if x.spread is None:
        return x
    allowed = FACTOR * x.spread
    known = x.value[np.isfinite(x.value) & np.isfinite(allowed)]
    largest = np.abs(known).max(initial=0.0)
    width = max(largest, np.ptp(known)) / 2 if known.size > 1 else largest
    kept = (x.spread == 0) | (allowed < width)
    shown = kept & (np.abs(x.value) > allowed)
    if not shown.any():
        kept = x.spread == 0
    return Bounded(x.value, np.where(kept, x.spread, np.inf))

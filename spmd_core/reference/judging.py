"""Which elements of a result are right by their bounds, wrong, or as imprecise as their sums: plain
NumPy, which exported scripts contain.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spmd_core.reference.bounds import LARGEST, Arithmetic, Bounded, bound


@dataclass(frozen=True, slots=True)
class Sequential:
    """What adding up in the dtype, one term after the other, explains: the least and the largest
    value of each element, and how many terms the longest sum has (0: not counted)."""

    low: np.ndarray
    high: np.ndarray
    dtype: str  # of the sums
    terms: int


def sequential(ends: Sequence[Bounded], how: Arithmetic, dtype: str, terms: int) -> Sequential:
    """The range of each element over `ends`: its value, what it is where every sum loses all that
    its steps may, and where it gains it, each with its bound. No range where one is not finite."""
    with np.errstate(all="ignore"):
        low = np.minimum.reduce([each.value - bound(each, how) for each in ends])
        high = np.maximum.reduce([each.value + bound(each, how) for each in ends])
    known = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(known, low, -np.inf), np.where(known, high, np.inf)
    return Sequential(low, high, dtype, terms)


@dataclass(frozen=True, slots=True)
class Judgement:
    """A result against the reference, element by element; `worst` is the flat index of the
    element that is furthest beyond its bound."""

    compared: int
    wrong: int
    worst: int | None
    unjudged: int  # no verdict: what follows, and what has no bound
    undefined: int  # of these: infinite, or no number, in float64 too
    infinite: int  # right as infinity: the value itself is beyond the dtype's largest number
    imprecise: int = 0  # beyond the bound, and within what adding up in the dtype explains
    off: float = 0.0  # of these: the root of their mean square error, over that of their values
    unresolved: int = 0  # of `unjudged`: beyond the bound, where such sums would explain zeros too
    is_blind: bool = False  # zeros would be as right

    @property
    def correct(self) -> bool | None:
        """None: nothing of it can be judged, or nothing that zeros would not be right for."""
        if (self.compared and self.unjudged == self.compared) or self.is_blind:
            return None
        return not self.wrong


def judge(
    value: np.ndarray,
    allowed: np.ndarray,
    output: np.ndarray,
    dtype: str,
    added: Callable[[], Sequential] | None = None,
) -> Judgement:
    """Whether each element of `output` is within `allowed` of `value`; arrays of one shape.
    `added`: further off than that it may be by sums in the dtype."""
    value, allowed, output = (
        np.asarray(array, np.float64).reshape(-1) for array in (value, allowed, output)
    )
    largest = LARGEST.get(dtype, np.inf)
    undefined = ~np.isfinite(value)
    with np.errstate(all="ignore"):
        error = np.abs(output - value)
        overflow = np.isinf(output) & (output * value > 0) & (np.abs(value) + allowed > largest)
        right = (
            (value == output) | (error <= allowed) & (np.abs(value) - allowed <= largest) | overflow
        )
        unjudged = np.isinf(allowed) | undefined
        imprecise, unresolved = _by_sums(output, added, ~right & ~unjudged)
        unjudged |= unresolved
        wrong = ~right & ~unjudged & ~imprecise
        beyond = np.where(wrong, np.nan_to_num(error / allowed, nan=np.inf, posinf=np.inf), -1.0)
        off = _root_mean_square(error[imprecise]) / (_root_mean_square(value[imprecise]) or 1.0)
    shown = ~unjudged & (np.abs(value) > allowed)
    return Judgement(
        compared=value.size,
        wrong=int(wrong.sum()),
        worst=int(beyond.argmax()) if wrong.any() else None,
        unjudged=int(unjudged.sum()),
        undefined=int(undefined.sum()),
        infinite=int((np.isinf(output) & ~wrong & ~unjudged).sum()),
        imprecise=int(imprecise.sum()),
        off=off,
        unresolved=int(unresolved.sum()),
        is_blind=bool(unresolved.any() and not shown.any() and not wrong.any()),
    )


def _root_mean_square(array: np.ndarray) -> float:
    return math.sqrt((array**2).sum() / max(array.size, 1))


def _by_sums(
    output: np.ndarray, added: Callable[[], Sequential] | None, beyond: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of elements beyond their bound: those that sums in the dtype explain, and those where such
    sums would explain zeros too."""
    if added is None or not beyond.any():
        return np.zeros_like(beyond), np.zeros_like(beyond)
    sums = added()
    low, high = sums.low.reshape(-1), sums.high.reshape(-1)
    explained = beyond & (low <= output) & (output <= high)
    blind = (low <= 0) & (high >= 0)
    return explained & ~blind, explained & blind

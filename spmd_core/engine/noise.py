"""Noise of the size of a dtype's rounding, in float64: on a value, on the terms of a sum, and on a
running sum."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from spmd_core.reference import EPS, ROUNDING, TINY, Arithmetic

DRAWN = 2**17  # numbers that are drawn for a run
LEAST = 1e-300  # divided by in place of 0
# those that one array is filled with, again and again: a prime, so that no dim repeats them
STRETCH = 65_521


def drawn_noise(seed: int, runs: int) -> np.ndarray:
    """A row for each run, (runs, DRAWN), of mean 0 and mean square 1: no two sources of it cancel
    again and again, as 1 and -1 would."""
    return np.random.default_rng(seed).uniform(-math.sqrt(3), math.sqrt(3), (runs, DRAWN))


def rounding(value: Any, sign: Any, noise: Any, dtype: str, of: Any = jnp) -> Any:
    """Values rounded to a dtype with noise, as `of` computes. Near 0 a rounding is absolute, and
    gives no other sign, so that a root stays a number; where `sign` is 0 the value is 0 exactly."""
    return of.abs(of.abs(value) * (noise * EPS[dtype] + 1.0) + noise * TINY[dtype]) * sign


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of each element: how many terms, what they add up to, the same of their magnitudes and
    of their squares, and what they are added to."""

    terms: Any
    total: Any
    size: Any
    squares: Any
    start: Any = 0.0

    def kept_in(self, eps: float, of: Any = jnp) -> tuple[Any, Any, Any]:
        """(walk, loss, gain) of sums that are rounded at every step, as `of` computes: how far
        independent roundings spread them, and by how much steps that round alike make them
        smaller and larger.

        A step errs by at most half a unit in the last place of the partial sum, and by at most its
        term, since the sum before it is a number of the dtype. The partial sums of terms of one
        sign grow evenly, so that from the term on that is half a unit of them, all are lost.
        """
        total, start, count = of.abs(self.total), of.abs(self.start), of.maximum(self.terms, 1.0)
        mean, half = self.size / count, of.maximum(total, start) * (eps / 2)
        alike = total / of.maximum(self.size, LEAST)
        kept = of.minimum(mean / of.maximum(half, LEAST), 1.0) * count
        gain = half * kept * kept / (count * 2.0)
        loss = gain + (count - kept) * mean
        # of a sum that is added to something larger, every partial sum is as large as that
        large = of.minimum(start / of.maximum(total, LEAST), 1.0)
        flat = of.minimum(mean, half) * count
        gain, loss = (each + large * of.maximum(flat - each, 0.0) for each in (gain, loss))
        squares = self.squares * 0.5 + total * total * (1 / 3) + start * start
        walk = of.sqrt(count * squares) * (ROUNDING * eps)
        return of.minimum(walk, of.sqrt(self.squares)), alike * loss, alike * gain


@dataclass(frozen=True, slots=True)
class Signs:
    """Noise in float64: a stretch of one drawn row for every array, since to draw each would take
    XLA seconds to compile."""

    row: Any  # (DRAWN,)
    start: Any = 0

    def other(self, number: Any) -> "Signs":
        """Noise for another array."""
        return Signs(self.row, (self.start * 31 + number * 977 + 1) % (DRAWN - STRETCH))

    def of(self, shape: tuple[int, ...]) -> Any:
        """An array of it."""
        size = math.prod(shape)
        stretch = jax.lax.dynamic_slice_in_dim(self.row, self.start, min(size, STRETCH))
        return (
            jnp.tile(stretch, -(-size // STRETCH))[:size].reshape(shape)
            if size > STRETCH
            else stretch.reshape(shape)
        )

    def of_blocks(self, shape: tuple[int, ...], axis: int, apart: Sequence[int], most: int) -> Any:
        """An array of it that is alike within blocks, at most `most` of them, along `axis`, and
        along the others of `apart`."""
        blocks = min(most, shape[axis])
        few = [1 if at in apart else size for at, size in enumerate(shape)]
        few[axis] = blocks
        repeats = -(-shape[axis] // blocks) if blocks else 1
        block = jnp.repeat(self.of(tuple(few)), repeats, axis=axis)
        return jax.lax.slice_in_dim(block, 0, shape[axis], axis=axis)


@dataclass(frozen=True, slots=True)
class Noise:
    """What is rounded to which eps, and over how many devices sums may be sharded."""

    how: Arithmetic
    devices: int
    largest: Any = math.inf  # magnitudes beyond it are infinite
    # of sums that are rounded at every term, from 0 to 1: independent steps, and steps that round
    # alike and lose, or gain, all they can
    walk: Any = 0.0
    loss: Any = 0.0
    gain: Any = 0.0
    counts: list[Any] | None = None  # gains how many terms such sums have

    @property
    def sums_overflow(self) -> bool:
        """Whether partial sums may be beyond the dtype where the sum is not: float32 and bfloat16
        have room for them."""
        return self.how.dtype == "float16"

    def rounded(self, value: Any, signs: Signs) -> Any:
        """A value as an operation returns it."""
        if not _floats(value):
            return value
        noise = signs.of(value.shape)
        return self.limited(rounding(value, jnp.sign(value), noise, self.how.dtype))

    def limited(self, value: Any, by: Any = None) -> Any:
        """A value, infinite where it, or `by`, is beyond the dtype's largest number."""
        if not _floats(value):
            return value
        size = jnp.abs(value if by is None else by)
        return jnp.where(size > self.largest, jnp.copysign(jnp.inf, value), value)

    def term(self, value: Any, axes: Sequence[int], multiplied: bool, signs: Signs) -> Any:
        """An operand of a sum over `axes`; each block of it, as many along an axis as there
        are devices, alike as well."""
        if not _floats(value):
            return value
        terms = math.prod(value.shape[axis] for axis in axes)
        eps = (
            self.how.eps
            + EPS["float32"] * math.sqrt(terms)
            + (self.how.multiplier if multiplied else 0.0)
        )
        noise = signs.of(value.shape)
        for number, axis in enumerate(axes):
            noise = noise + signs.other(number + 1).of_blocks(value.shape, axis, axes, self.devices)
        return value * (1 + eps * noise)

    def some(self, value: Any, axes: Sequence[int], signs: Signs) -> Any:
        """The first terms of a sum over `axes`, a random number of them: they add up to a partial
        sum."""
        for number, axis in enumerate(axes if _floats(value) else ()):
            share = (1 + signs.other(number).of(()) / math.sqrt(3)) / 2
            place = jax.lax.broadcasted_iota(jnp.float64, value.shape, axis)
            value = jnp.where(place < share * value.shape[axis], value, 0.0)
        return value

    def stepwise(self, value: Any, sums: Sums, signs: Signs) -> Any:
        """A sum that is as far off as its levels; one that the function itself keeps in another
        dtype than its operands is rounded to that already."""
        if value.dtype != jnp.float64:
            return value
        walk, loss, gain = sums.kept_in(self.how.eps)
        # what steps lose makes the partial sums smaller, and their roundings
        left = 1 - self.loss * loss / jnp.maximum(jnp.abs(sums.total), LEAST)
        by = jnp.maximum(self.walk, self.how.dtype == "float32")  # which is expected to add so
        shift = jnp.sign(sums.total) * (self.gain * gain - self.loss * loss)
        return value + shift + walk * by * left * signs.of(value.shape)

    def running(self, total: Any, axis: int, reverse: bool, multiplied: bool, signs: Signs) -> Any:
        """Running sums or products, of which each step rounds the one before. Where steps round
        alike, they lose what changes little beside it."""
        if not _floats(total):
            return total
        rounding = ROUNDING * self.how.eps * total
        change = total - jnp.roll(total, -1 if reverse else 1, axis)  # the first is bounded anyway
        lost = jnp.copysign(jnp.minimum(jnp.abs(change), jnp.abs(rounding)), change)
        alike = signs.other(1).of_blocks(total.shape, axis, (axis,), self.devices)
        steps = rounding * signs.of(total.shape) + lost * alike
        if not multiplied:
            return total + jax.lax.cumsum(steps, axis, reverse)
        rates = steps / jnp.where(total == 0, 1.0, total)
        return total * (1 + jax.lax.cumsum(rates, axis, reverse))


def _floats(value: Any) -> bool:
    return jnp.issubdtype(jnp.result_type(value), jnp.floating)

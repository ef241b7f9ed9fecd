"""How far a function of one's own may be off by sums of which every partial sum is rounded."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

from spmd_core.engine.measured.rounding_noise import Values, noisy, rows_of_noise
from spmd_core.engine.noise import Noise
from spmd_core.reference import Bounded, Sequential, sequential


def added_up(
    function: Callable[..., Any],
    operands: Sequence[Any],
    values: Sequence[np.ndarray],
    noise: Noise,
    seed: int,
) -> list[Callable[[], Sequential]]:
    """For each of `values` how far sums that are rounded at every term let it be off: computed
    where it is called, once for all."""

    @cache
    def ends() -> tuple[Sequence[Sequence[Bounded]], int]:
        with jax.enable_x64(True), jax.default_device(jax.local_devices(backend="cpu")[0]):
            run = noisy(function, operands, noise)
            rows = rows_of_noise(operands, values, seed)
            return _ends(lambda row, sums: run(row, np.inf, sums, *operands), rows)

    def of(at: int) -> Callable[[], Sequential]:
        how = noise.how
        return lambda: sequential([end[at] for end in ends()[0]], how, how.dtype, ends()[1])

    return [cache(of(at)) for at in range(len(values))]


def _ends(
    run: Callable[[np.ndarray, np.ndarray], tuple[Values, Any]], rows: np.ndarray
) -> tuple[list[list[Bounded]], int]:
    """Results of sums as they are, and where they lose, and gain, all they can; and how many terms
    the longest has."""
    sums, terms = list[list[Bounded]](), 0.0
    for loss, gain in ((0.0, 0.0), (1.0, 0.0), (0.0, 1.0)):
        at, longest = run(np.zeros(rows.shape[1]), np.array([0.0, loss, gain]))
        exact = [np.asarray(each, np.float64) for each in at]
        squares = [np.zeros(each.shape) for each in exact]
        for row in rows:
            moved, _ = run(row, np.array([1.0, loss, gain]))
            squares = [
                each + (np.asarray(to, np.float64) - value) ** 2
                for each, to, value in zip(squares, moved, exact, strict=True)
            ]
        spreads = [np.sqrt(each / len(rows)) for each in squares]
        sums.append([Bounded(*each) for each in zip(exact, spreads, strict=True)])
        terms = max(terms, float(longest))
    return sums, int(terms)

"""The curves of a training run: a value for each step, by curve and strategy."""

from collections.abc import Mapping, Sequence

import numpy as np

MAX_POINTS = 200  # of a curve that is drawn; a result keeps every step
STEP_TIME = "step_s"  # the curve of seconds per step


def thinned(values: Sequence[float]) -> tuple[float, ...]:
    """At most MAX_POINTS of a curve's values, evenly, the first and the last among them."""
    return tuple(values[step] for step in steps_drawn(len(values)))


def steps_drawn(count: int) -> list[int]:
    """Which of `count` steps, from 0, are drawn.

    >>> steps_drawn(3), len(steps_drawn(10_000))
    ([0, 1, 2], 200)
    """
    return np.linspace(0, count - 1, min(count, MAX_POINTS)).round().astype(int).tolist()


def labelled(curve: str, strategy: str) -> str:
    """The key of a strategy's curve while a run streams it."""
    return f"{curve}/{strategy}"


def by_curve(series: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Sequence[float]]]:
    """Curve -> strategy -> values, from streamed series.

    >>> by_curve({"loss/auto": (2.0, 1.0)})
    {'loss': {'auto': (2.0, 1.0)}}
    """
    curves: dict[str, dict[str, Sequence[float]]] = {}
    for label, values in series.items():
        curve, _, strategy = label.partition("/")
        curves.setdefault(curve, {})[strategy] = values
    return curves

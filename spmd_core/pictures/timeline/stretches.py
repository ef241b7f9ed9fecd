"""Intervals of time: their union, difference and total length."""

from collections.abc import Iterable, Sequence

Stretch = tuple[float, float]  # from, to


def joined(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """The union of stretches, as disjoint stretches in order.

    >>> joined([(3, 4), (0, 2), (1, 2.5)])
    ((0, 2.5), (3, 4))
    """
    merged: list[Stretch] = []
    for start, end in sorted(stretches):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        else:
            merged.append((start, end))
    return tuple(merged)


def outside(stretches: Iterable[Stretch], others: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """The stretches minus `others`, which are disjoint.

    >>> outside([(0, 10)], ((2, 3), (5, 12)))
    ((0, 2), (3, 5))
    """
    rest: list[Stretch] = []
    for start, end in stretches:
        for low, high in others:
            if high <= start or low >= end:
                continue
            if low > start:
                rest.append((start, low))
            start = max(start, high)
        if end > start:
            rest.append((start, end))
    return tuple(rest)


def covered_s(stretches: Iterable[Stretch]) -> float:
    """The total length of disjoint stretches, seconds."""
    return sum(end - start for start, end in stretches)

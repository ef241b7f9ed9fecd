"""Stretches of time: joined, without others, and how long they are together."""

from collections.abc import Iterable, Sequence

Stretch = tuple[float, float]  # from, to


def joined(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """What any of them covers, in order and apart.

    >>> joined([(3, 4), (0, 2), (1, 2.5)])
    ((0, 2.5), (3, 4))
    """
    found: list[Stretch] = []
    for start, end in sorted(stretches):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return tuple(found)


def outside(stretches: Iterable[Stretch], others: Sequence[Stretch]) -> tuple[Stretch, ...]:
    """What is left of stretches without `others`, which are joined.

    >>> outside([(0, 10)], ((2, 3), (5, 12)))
    ((0, 2), (3, 5))
    """
    found: list[Stretch] = []
    for start, end in stretches:
        for low, high in others:
            if high <= start or low >= end:
                continue
            if low > start:
                found.append((start, low))
            start = max(start, high)
        if end > start:
            found.append((start, end))
    return tuple(found)


def covered_s(stretches: Iterable[Stretch]) -> float:
    """How long stretches that do not overlap are together, seconds."""
    return sum(end - start for start, end in stretches)

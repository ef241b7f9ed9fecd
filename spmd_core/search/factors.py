"""Meshes of a number of devices: every way to write it as a product of few axes."""

import itertools
from collections.abc import Iterator
from functools import cache

MAX_AXES = 3


@cache
def factorizations(devices: int, axes: int) -> tuple[tuple[int, ...], ...]:
    """Ordered products of `axes` factors above 1 that are `devices`; one device is no axis at all.

    >>> factorizations(8, 2), factorizations(1, 0)
    (((2, 4), (4, 2)), ((),))
    """
    if axes == 0:
        return ((),) if devices == 1 else ()
    return tuple(
        (first, *rest)
        for first in range(2, devices + 1)
        if devices % first == 0
        for rest in factorizations(devices // first, axes - 1)
    )


def named_meshes(
    devices: int, names: tuple[str, ...], most: int = MAX_AXES
) -> Iterator[tuple[tuple[str, int], ...]]:
    """Meshes of up to `most` of these axes, in the order of the names, fewest axes first."""
    for count in range(0 if devices == 1 else 1, min(most, len(names)) + 1):
        for chosen in itertools.combinations(names, count):
            for sizes in factorizations(devices, count):
                yield tuple(zip(chosen, sizes, strict=True))

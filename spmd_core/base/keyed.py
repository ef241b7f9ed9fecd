"""Values put together by their keys."""

from collections.abc import Iterable
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


def by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """The values of each key, keys and values in the order in which they come.

    >>> by_key([("x", 1), ("y", 2), ("x", 3)])
    {'x': [1, 3], 'y': [2]}
    """
    groups: dict[K, list[V]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def firsts_by_key(pairs: Iterable[tuple[K, V]]) -> dict[K, V]:
    """The first value of each key, keys in the order in which they come.

    >>> firsts_by_key([("x", 1), ("y", 2), ("x", 3)])
    {'x': 1, 'y': 2}
    """
    return {key: values[0] for key, values in by_key(pairs).items()}


def sums_by_key(pairs: Iterable[tuple[K, float]]) -> dict[K, float]:
    """The sum of each key's numbers, keys in the order in which they come.

    >>> sums_by_key([("x", 1), ("y", 2), ("x", 3)])
    {'x': 4, 'y': 2}
    """
    sums: dict[K, float] = {}
    for key, value in pairs:
        sums[key] = sums.get(key, 0) + value
    return sums

"""A cache of what is read of stored runs."""

from collections.abc import Callable
from functools import lru_cache
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _NotStored(Exception):
    """Raised through the cache, which keeps what is returned but not what is raised."""


class Kept(Generic[P, T]):
    """A reader of stored runs whose last answers are kept, but for None: what is not stored yet may
    still come.
    """

    def __init__(self, read: Callable[P, T | None], size: int) -> None:
        def read_stored(*args: P.args, **kwargs: P.kwargs) -> T:
            if (value := read(*args, **kwargs)) is None:
                raise _NotStored
            return value

        self._cached = lru_cache(maxsize=size)(read_stored)
        self.cache_clear = self._cached.cache_clear

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The answer, read now or before; None where nothing is stored."""
        try:
            return self._cached(*args, **kwargs)
        except _NotStored:
            return None


def kept(size: int) -> Callable[[Callable[P, T | None]], Kept[P, T]]:
    """A decorator: keep the last `size` answers of a reader."""
    return lambda read: Kept(read, size)

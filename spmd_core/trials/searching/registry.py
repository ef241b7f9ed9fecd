"""The searches, or the searches for remedies, of this process: each runs in a thread of its own."""

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

from spmd_core.trials.searching.work import ThreadedWork

S = TypeVar("S")
W = TypeVar("W", bound=ThreadedWork)


class Registry(Generic[W, S]):
    """Work by data folder and key, and the store of each folder. `kept` is how many of those that
    are over, oldest first, stay in memory; the rest is read from the store.
    """

    def __init__(
        self, noun: str, kept: Callable[[Sequence[W]], int], opened: Callable[[Path], S]
    ) -> None:
        self._noun, self._kept, self._opened = noun, kept, opened
        self._guard = threading.Lock()
        self._works: dict[tuple[Path, str], W] = {}
        self._stores: dict[Path, S] = {}

    def store(self, folder: Path) -> S:
        """The store of a data folder, opened once."""
        with self._guard:
            if folder not in self._stores:
                self._stores[folder] = self._opened(folder)
            return self._stores[folder]

    def find(self, folder: Path, key: str) -> W | None:
        """The work of this process under that key, at work or over."""
        with self._guard:
            return self._works.get((folder, key))

    def start(self, folder: Path, key: str, made: Callable[[], W]) -> W:
        """Begin what `made` makes; the one that is at work already where one is."""
        with self._guard:
            known = self._works.get((folder, key))
            if known is not None and not known.is_over:
                return known
            work = self._works[folder, key] = made()
            over = [(each, one) for each, one in self._works.items() if one.is_over]
            count = self._kept([one for _, one in over])
            for old, _ in over[: len(over) - count]:
                del self._works[old]
        threading.Thread(target=work.run, name=f"{self._noun} {key}", daemon=True).start()
        return work

    def running(self) -> int:
        """How many are at work in this process."""
        with self._guard:
            return sum(not work.is_over for work in self._works.values())

"""Searches of this process: each runs in its own thread, and is kept by its question."""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import accumulate, islice
from pathlib import Path
from typing import Generic, TypeVar

from spmd_core.base import RequestError
from spmd_core.lab import COMMAND_LINE, Asker, Lab, Searches, StoredSearch
from spmd_core.search import KeptSearch, ModelQuestion, link
from spmd_core.trials.searching.search import AnyQuestion, Search
from spmd_core.trials.searching.work import Work

S = TypeVar("S")
W = TypeVar("W", bound=Work)


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

    def at_work(self) -> list[W]:
        """Those that are not over, of this process."""
        with self._guard:
            return [work for work in self._works.values() if not work.is_over]

    def running(self) -> int:
        """How many are at work in this process."""
        return len(self.at_work())


# that are over and stay in memory: the others are read from the data folder again
KEPT = 6
KEPT_CANDIDATES = 100_000  # of all of these: about 80 MB
AT_ONCE = 2  # that run
_LOOKED_BACK = (
    50  # stored searches that may be of the same question: of each the topologies are read
)


def _kept(over: Sequence[Search]) -> int:
    counts = accumulate(search.held for search in reversed(over))
    return max(1, sum(count <= KEPT_CANDIDATES for count in islice(counts, KEPT)))


_searches = Registry[Search, Searches]("search", _kept, Searches)


def stored(lab: Lab) -> Searches:
    """The searches of the Lab's folder."""
    return _searches.store(lab.folder)


def alike(lab: Lab, question: AnyQuestion) -> AnyQuestion:
    """Returns the question under which the same one was searched before, the last of these; itself
    where none was, or where it was itself.
    """
    if not isinstance(question, ModelQuestion) or stored(lab).find(question.id) is not None:
        return question
    for each in latest(lab, _LOOKED_BACK):
        with suppress(RequestError):  # of another version
            other = link.question_of(each.question)
            if _is_alike(question, other):
                return other
    return question


def _is_alike(question: ModelQuestion, other: AnyQuestion) -> bool:
    if not isinstance(other, ModelQuestion):
        return False
    sizes = [(each.model, each.sequence, each.minimize) for each in (question, other)]
    return sizes[0] == sizes[1] and question.meaning == other.meaning


def find(lab: Lab, question: AnyQuestion) -> Search | None:
    """The search of a question, running or over; one that is only stored is read again, in a thread
    of its own. None where there is none.
    """
    known = _searches.find(lab.folder, question.id)
    if known is not None:
        return known
    if stored(lab).find(question.id) is None:
        return None
    return start(lab, question, None)


def start(
    lab: Lab,
    question: AnyQuestion,
    budget_s: float | None,
    asker: Asker = COMMAND_LINE,
    compiles: int | None = None,
) -> Search:
    """Begin a search, or go on with it; the one that runs already where one does."""
    store = stored(lab)
    return _searches.start(
        lab.folder, question.id, lambda: Search(lab, store, question, budget_s, asker, compiles)
    )


def keep(lab: Lab, kept: KeptSearch, asker: Asker = COMMAND_LINE) -> None:
    """Store an answer that took no search, such as one of serving; AccessError if `asker` may not."""
    lab.allow(asker, "keep search", kept.search)
    stored(lab).begin(kept.search, dict(kept.question), kept.space)
    stored(lab).keep(kept)


def running() -> int:
    """Searches at work in this process."""
    return _searches.running()


def at_work() -> list[Search]:
    """Returns the searches at work in this process, the oldest first."""
    return _searches.at_work()


def latest(lab: Lab, limit: int = 8) -> tuple[StoredSearch, ...]:
    """Stored searches, the last first."""
    return stored(lab).latest(limit)


def best_run(lab: Lab, search: str) -> str | None:
    """The run that answers for a stored search: of its candidates that were measured, else of those
    that were compiled, the one with the lowest time. None where none of them is stored.
    """
    outcomes = stored(lab).outcomes(search).values()
    for stage in ("measured", "compiled"):
        runs = {str(each["run"]) for each in outcomes if each.get("fate") == stage and each["run"]}
        timed = [
            (each.answer[1], each.run)
            for each in (lab.history(runs=sorted(runs), limit=len(runs)) if runs else ())
            if each.answer
        ]
        if timed:
            return min(timed)[1]
    return None

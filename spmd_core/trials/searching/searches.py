"""Searches of this process: each runs in its own thread, and is found again by its question."""

import threading
from collections.abc import Callable
from pathlib import Path

from spmd_core.lab import COMMAND_LINE, Asker, Lab, Searches, StoredSearch
from spmd_core.search import Answer
from spmd_core.trials.searching.search import AnyQuestion, Search
from spmd_core.trials.searching.work import carried_out

# that are over and stay in memory: the others are read from the data folder again
KEPT = 6
KEPT_CANDIDATES = 100_000  # of all of these: about 80 MB
AT_ONCE = 2  # that run

_guard = threading.Lock()
_searches: dict[tuple[Path, str], Search] = {}
_stores: dict[Path, Searches] = {}


def stored(lab: Lab) -> Searches:
    """The searches of the Lab's folder."""
    with _guard:
        if lab.folder not in _stores:
            _stores[lab.folder] = Searches(lab.folder)
        return _stores[lab.folder]


def find(lab: Lab, question: AnyQuestion) -> Search | None:
    """The search of a question, running or over; one that is only stored is read again, in a thread
    of its own. None where it was never asked.
    """
    with _guard:
        known = _searches.get((lab.folder, question.id))
    if known is not None:
        return known
    if stored(lab).find(question.id) is None:
        return None
    return start(lab, question, None)


def start(
    lab: Lab, question: AnyQuestion, budget_s: float | None, asker: Asker = COMMAND_LINE
) -> Search:
    """Begin a search, or go on with it; the one that runs already where one does."""
    store, key = stored(lab), (lab.folder, question.id)
    with _guard:
        known = _searches.get(key)
        if known is not None and not known.is_over:
            return known
        search = _searches[key] = Search(lab, store, question, budget_s, asker)
        _forget_old()
    threading.Thread(target=search.run, name=f"search {question.id}", daemon=True).start()
    return search


def _forget_old() -> None:
    """Leave the last ones that are over in memory, the very last one in any case."""
    over = [(key, search) for key, search in _searches.items() if search.is_over]
    count = 0
    for place, (key, search) in enumerate(reversed(over)):
        count += search.space
        if place and (place >= KEPT or count > KEPT_CANDIDATES):
            del _searches[key]


def running() -> int:
    """Searches at work in this process."""
    with _guard:
        return sum(not search.is_over for search in _searches.values())


def latest(lab: Lab, limit: int = 8) -> tuple[StoredSearch, ...]:
    """Stored searches, the last first."""
    return stored(lab).latest(limit)


def watch_search(
    search: Search, on_change: Callable[[Search], None], every_s: float = 0.5
) -> Answer:
    """Run a search in a thread of its own and tell how it goes; its answer."""
    return carried_out(search, "search", on_change, every_s).answer

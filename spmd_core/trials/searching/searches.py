"""Searches of this process: each runs in its own thread, and is kept by its question."""

from collections.abc import Sequence
from itertools import accumulate, islice

from spmd_core.lab import COMMAND_LINE, Asker, Lab, Searches, StoredSearch
from spmd_core.trials.searching.registry import Registry
from spmd_core.trials.searching.search import AnyQuestion, Search

# that are over and stay in memory: the others are read from the data folder again
KEPT = 6
KEPT_CANDIDATES = 100_000  # of all of these: about 80 MB
AT_ONCE = 2  # that run


def _kept(over: Sequence[Search]) -> int:
    """How many of the searches that are over stay in memory, the last one in any case."""
    counts = accumulate(search.held for search in reversed(over))
    return max(1, sum(count <= KEPT_CANDIDATES for count in islice(counts, KEPT)))


_searches = Registry[Search, Searches]("search", _kept, Searches)


def stored(lab: Lab) -> Searches:
    """The searches of the Lab's folder."""
    return _searches.store(lab.folder)


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


def running() -> int:
    """Searches at work in this process."""
    return _searches.running()


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

"""Stored timelines, read once for the few that are looked at."""

from functools import lru_cache

from spmd_core.pictures import NAME, Timeline, from_text
from ui.lab import NothingStored, lab


def of_run(run: str, strategy: str, name: str = NAME) -> Timeline | None:
    """A timeline of a strategy of a run, the predicted one unless named; None where it left none. RequestError where another
    version wrote it.
    """
    try:
        return _of_run(run, strategy, name)
    except NothingStored:
        return None


@lru_cache(maxsize=8)
def _of_run(run: str, strategy: str, name: str) -> Timeline:
    text = lab().text(run, strategy, name)
    if text is None:
        raise NothingStored(run)  # not kept: it may still come
    return from_text(text)

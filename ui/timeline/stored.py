"""Stored timelines, read once for the few that are looked at."""

from functools import lru_cache

from spmd_core.timeline.text import NAME, from_text
from spmd_core.timeline.values import Timeline
from ui.lab import lab


def of_run(run: str, strategy: str) -> Timeline | None:
    """The timeline of a strategy of a run; None where it left none. RequestError where another
    version wrote it.
    """
    try:
        return _of_run(run, strategy)
    except LookupError:
        return None


@lru_cache(maxsize=8)
def _of_run(run: str, strategy: str) -> Timeline:
    text = lab().text(run, strategy, NAME)
    if text is None:
        raise LookupError(run)  # not kept: it may still come
    return from_text(text)

"""Stored timelines, read once for the few that are shown."""

from spmd_core.pictures import NAME, Timeline, from_text
from spmd_lab.ui.lab import kept, lab


@kept(8)
def of_run(run: str, strategy: str, name: str = NAME) -> Timeline | None:
    """A timeline of a strategy of a run, the predicted one unless named; None where it left none.
    RequestError where another version wrote it.
    """
    text = lab().text(run, strategy, name)
    return None if text is None else from_text(text)

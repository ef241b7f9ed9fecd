"""The results that came with the program: an archive of real runs, which `python -m
bench.first_results` writes, and the texts that stand beside them.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from spmd_core.base import RequestError
from spmd_core.lab import container

SPECS, ARCHIVE = (Path(__file__).with_name(name) for name in ("specs.json", "examples.spmdlab"))


@cache
def run_ids() -> tuple[str, ...]:
    """Their ids, in the order of the texts; none where the archive cannot be read."""
    try:
        with ARCHIVE.open("rb") as file:
            return container.Archive(file, ARCHIVE.name).manifest.ids()
    except (OSError, RequestError):
        return ()


@dataclass(frozen=True, slots=True)
class Stop:
    """A click of the tour, or a section of the example page: the runs that it shows (several side
    by side), what it is called, what to look at, and the tab that has it.
    """

    runs: tuple[str, ...]
    title: str
    look: str
    tab: str = ""


@cache
def stops(part: str = "tour") -> tuple[Stop, ...]:
    """The clicks of the tour, or the sections of the example `page`, in order."""
    texts = json.loads(SPECS.read_text("utf-8"))
    ids = dict(zip((each["name"] for each in texts["runs"]), run_ids(), strict=False))
    return tuple(
        Stop(**each | {"runs": tuple(ids[name] for name in each["runs"])})
        for each in texts[part] * bool(ids)
    )

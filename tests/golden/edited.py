"""Doors to screens that somebody edits, filters or fills: fields beside the answer of others, rows that
are hidden, folders that are full; and to sentences about the first of several.
"""

import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any
from unittest import mock

from spmd_core.experiment import Experiment, link, parse_experiment, screen_of
from spmd_core.lab import Lab
from spmd_core.search import link as search_link
from spmd_core.trials import searches
from spmd_lab.ui.predict import variant
from tests.golden import screens
from tests.golden.asked import _TICKED, LARGE, SMALLER, STUDY
from tests.golden.folder import apart
from tests.golden.sentences import PLAN, SEARCHES, SENTENCES, _baseline
from tests.golden.states import LAYER
from tests.golden.values import Line

MEASURED = "20261124-173534-6893dc"
ANEW = {"name": "anew", "changes": {"dims": {"batch": 64, "sequence": 2048}}}
NOTHING: Mapping[str, Any] = MappingProxyType({})
LATE = "predict --model llama-3.1-8b --tokens 15e12 --target v5p,v6e,h100 --deadline 1d"
ARRAYS = LAYER | {"overrides": {"weights": [["x"], []]}, "memory": {"weights": "pinned_host"}}


def doors(
    printed: Callable[..., list[Line]], lab: Lab
) -> Iterator[tuple[str, Callable[[], list[Line]]]]:
    """Name and rendering of each."""
    held = {_TICKED: [MEASURED, LARGE]}
    filtered = partial(screens.lines_of, "history", {"search": "decoder"}, held)
    yield "edited/ticked and hidden", filtered
    yield "edited/study", partial(_study, lab)
    more = {"tab": "Details", "detail": "Layouts", "strategy": "single"}
    yield "edited/layouts of one device", partial(_of_run, lab, MEASURED, more)
    for at in ("1", "3"):
        more = {"tab": "Why", "arrows": at}
        yield f"edited/collective {at} of a study", partial(_of_run, lab, STUDY, more)
    open_ = {"fields:arrays": True, "fields:measuring": True}
    yield "edited/arrays", partial(_of, parse_experiment(ARRAYS), {}, open_)
    yield "edited/full", _full
    yield "edited/searched", _searched
    yield f"edited/{LATE}", partial(printed, "text", *LATE.split())
    yield "edited/sentences", partial(_sentences, lab)


def _of(experiment: Experiment, more: Mapping[str, str], held: Mapping[str, Any]) -> list[Line]:
    query = {"experiment": link.encode(experiment)} | more
    return screens.lines_of(screen_of(experiment), query, held)


def _of_run(lab: Lab, run: str, more: Mapping[str, str]) -> list[Line]:
    return _of(lab.status(run).experiment, {"run": run} | more, NOTHING)


def _study(lab: Lab) -> list[Line]:
    """Compare with a study of plans of which one is stored and one is not."""
    form = dict(lab.status(STUDY).experiment.to_json())
    form["variants"] = [*form["variants"][1:], ANEW]
    return _of(parse_experiment(form), {}, NOTHING)


def _full() -> list[Line]:
    """History of a folder that is full, with runs that this version cannot read."""
    with mock.patch.dict(os.environ, {"SPMD_LAB_STORED_BYTES": "1000000"}), apart() as lab:
        with closing(sqlite3.connect(lab.folder / "lab.sqlite3")) as stored, stored:
            unread = "SELECT experiment FROM runs WHERE id IN (?, ?)"
            stored.execute(
                f"UPDATE experiments SET spec = '{{}}' WHERE id IN ({unread})", (LARGE, STUDY)
            )
        return screens.lines_of("history", {})


def _searched() -> list[Line]:
    """What is said of a search that two rules leave nothing of."""
    with apart() as lab:
        kept = next(each for each in lab.searches.listed() if each.id == SEARCHES[0])
        stored = searches.stored(lab).find(kept.search)
        assert stored is not None
        search = searches.start(lab, search_link.question_of(stored.question), None)
        while not search.is_over:
            time.sleep(0.01)
        answer = replace(search.answer, proof=None, seconds=1.5)
    reasons = ("does not divide", "excluded by what is fixed")
    none = [
        replace(each, stage="pruned", reason=reasons[at % 2], detail=f"rule {at % 4}")
        for at, each in enumerate(answer.found)
    ]
    found = (none, none[::-1])
    return [[each(replace(answer, found=of))] for of in found for each in SENTENCES]


def _sentences(lab: Lab) -> list[Line]:
    """Sentences that name the first, least or last of several."""
    facts = [lab.facts(run) for run in (PLAN, LARGE, SMALLER)]
    predictions = [each.strategies["auto"].prediction for each in facts if each]
    pairs = [(one, other) for one in predictions for other in predictions if one and other]
    return [
        *([variant.sentence(*pair, alike)] for pair in pairs for alike in (True, False)),
        *([line] for line in _baseline(lab, PLAN).to_text().splitlines()),
    ]

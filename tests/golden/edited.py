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

from spmd_core.advice import arrays, with_sentence
from spmd_core.answers import search_lines
from spmd_core.experiment import Experiment, link, parse_experiment, screen_of
from spmd_core.facts import Collective, Predicted, Remedy
from spmd_core.lab import Lab
from spmd_core.runs import Labels
from spmd_core.search import Answer, link as search_link
from spmd_core.surveys.search import kept_search
from spmd_core.trials import searches
from spmd_core.words import strategies
from spmd_lab.ui.collectives import bandwidths, card
from spmd_lab.ui.notebook import labels
from spmd_lab.ui.predict import run_answer, variant
from tests.golden import screens
from tests.golden.asked import _TICKED, LARGE, SMALLER, STUDY
from tests.golden.folder import apart
from tests.golden.seldom import MEASURED, STORED_S
from tests.golden.sentences import PLAN, SEARCHES, SENTENCES, _baseline, _removals
from tests.golden.states import LAYER
from tests.golden.values import Line

UNTIMED = {"time_s": None, "predicted_s": None, "algbw": None, "busbw": None}
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
    yield "edited/changed", partial(_changed, lab)
    yield "edited/marked", partial(_marked, lab)
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
    """What is said of searches that differ in batch and price, and of one that two rules leave
    nothing of.
    """
    with apart() as lab:
        answers = [_answer(lab, id) for id in SEARCHES]
    reasons = ("does not divide", "excluded by what is fixed")
    none = [
        replace(each, stage="pruned", reason=reasons[at % 2], detail=f"rule {at % 4}")
        for at, each in enumerate(answers[0].found)
    ]
    found = (none, none[::-1])
    lines = [[each(replace(answers[0], found=of))] for of in found for each in SENTENCES]
    for each in answers:
        asked = each.question.to_json()
        prices = {chip.partition(":")[0]: 1.2 for chip in asked.get("chips", ())}
        priced = type(each.question).model_validate(asked | ({"price": prices} if prices else {}))
        for answer in (each, replace(each, question=priced)):
            lines += [[line] for line in search_lines(answer, 5)]
            lines += [[line] for line in kept_search(answer, "done", STORED_S).remarks]
    return lines


def _answer(lab: Lab, id: str) -> Answer:
    """A stored search, whose proof and seconds are left out."""
    kept = next(each for each in lab.searches.listed() if each.id == id)
    stored = searches.stored(lab).find(kept.search)
    assert stored is not None
    search = searches.start(lab, search_link.question_of(stored.question), None)
    while not search.is_over:
        time.sleep(0.01)
    return replace(search.answer, proof=None, seconds=1.5)


def _sentences(lab: Lab) -> list[Line]:
    """Sentences that name the first, least or last of several."""
    facts = [lab.facts(run) for run in (PLAN, LARGE, SMALLER)]
    predictions = [each.strategies["auto"].prediction for each in facts if each]
    pairs = [(one, other) for one in predictions for other in predictions if one and other]
    return [
        *([variant.sentence(*pair, alike)] for pair in pairs for alike in (True, False)),
        *([line] for line in _baseline(lab, PLAN).to_text().splitlines()),
    ]


def _changed(lab: Lab) -> list[Line]:
    """What rules and tables say of stored results with further collectives, points and marks."""
    facts = lab.facts(MEASURED)
    assert facts is not None
    name, outcome = "auto", facts.strategies["auto"]
    base = facts.row(name).experiment.vary(sharding={"in": ["x"]})
    removals = [(removal, each) for removal, each in _removals(base) if isinstance(removal, Remedy)]
    removed = [
        each.model_copy(
            update={
                "remove": with_sentence(
                    removal.model_copy(
                        update={"predicted_s": Predicted(before=1e-2, after=1e-3 * (1 + at % 4))}
                    ),
                    base,
                    each,
                )
            }
        )
        for at, (removal, each) in enumerate(removals)
    ]
    sums = [
        Collective(kind="all-reduce", axes=("x",), bytes=size, count=1) for size in (64, 4096, 512)
    ]
    wide = facts.experiment.vary(
        sharding={"batch": ["x"]}, dims={"batch": 4096, "in": 2048, "out": 8192}
    )
    summed = facts.experiment.vary(
        sharding={"in": ["x"]}, dims={"batch": 4096, "in": 2048, "out": 8192}
    )
    changes: tuple[tuple[Experiment, dict[str, Any]], ...] = (
        (base, {"collectives": tuple(removed)}),
        (base, {"collectives": tuple(removed[::-1])}),
        (wide, {"collectives": (), "memory_bytes": None}),
        (summed, {"collectives": tuple(sums)}),
        (base, {"iqr_s": 0.75 * (outcome.median_s or 0)}),
    )
    lines = []
    for experiment, change in changes:
        changed = outcome.model_copy(update=change)
        result = facts.model_copy(
            update={
                "experiment": experiment,
                "comparison": None,
                "strategies": facts.strategies | {name: changed},
            }
        )
        given = arrays.Facts(result, name, changed)
        for rule in (*arrays.RULES, lambda known: arrays.remedied(known.outcome)):
            found = rule(given)
            if found is not None:
                lines += [[found.rule, str(found.number), found.sentence, found.experiment.id]]
    return lines


def _marked(lab: Lab) -> list[Line]:
    """Labels, sizes and times in forms that no stored result has."""
    marks = Labels(name="By rows", tags=("one", "two"), is_pinned=True)
    plans = [lab.facts(run) for run in (LARGE, SMALLER, PLAN)]
    assert all(plans)
    outcomes = {str(at): each.strategies["auto"] for at, each in enumerate(plans) if each}
    lines = [[labels.heading(marks)], [labels.heading(Labels(name="By rows"))]]
    for listed in (outcomes, dict(reversed(outcomes.items()))):
        lines += [[*names, str(time.estimate)] for names, time in strategies.same_programs(listed)]
    for each in outcomes.values():
        if each.prediction:
            memory = each.prediction.memory_bytes.model_copy(update={"host": 50 * 2**30})
            held = {"memory_bytes": memory, "host_capacity_bytes": 40 * 2**30}
            figure = run_answer.held_figure(each.prediction.model_copy(update=held))
            lines += [[*map(str, figure)]]
    for run in lab.history(limit=3, over=True, workload="collectives"):
        facts = lab.facts(run.run)
        for sweep in facts.strategies.values() if facts else ():
            failed = [
                each.model_copy(update=UNTIMED) if each.kind == sweep.points[0].kind else each
                for each in sweep.points
            ]
            for points in (sweep.points, sweep.points[::-1], failed):
                point = card.Shown(points[0].kind, "+".join(points[0].axes)).at_size(points)
                figures = card._figures(point, None, None, {}) if point else ()
                lines += [[*map(str, figures), *bandwidths._kinds(points)]]
    return lines

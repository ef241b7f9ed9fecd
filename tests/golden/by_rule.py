"""Doors to stored results, sweeps and searches whose facts are changed by rule: verdicts, order, what is
known of time and memory. Each change is of every stored result of a kind.
"""

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from spmd_core.answers import (
    best_table,
    causes,
    every_table,
    points_table,
    ranking_table,
    search_lines,
)
from spmd_core.commands.printed.report import report
from spmd_core.experiment import parse_experiment, screen_of
from spmd_core.facts import Estimate, Settles
from spmd_core.lab import Lab
from spmd_core.reports import Subject, markdown_text, report_document
from spmd_core.results import Result, StrategyResult
from spmd_core.search import Answer
from spmd_core.sheets import sheet_lines
from spmd_core.surveys import sweep_headline, sweep_notes
from spmd_core.surveys.search import candidates, kept_search
from spmd_core.sweeps import SweepRow, curves, estimated, parse_sweep, variants
from spmd_core.words import strategies
from spmd_lab.ui import remedies
from spmd_lab.ui.compare import plan_rows
from spmd_lab.ui.predict import sweep_charts
from spmd_lab.ui.search import charts
from tests.golden.asked import PLAN, SMALL_PLAN
from tests.golden.edited import _answer
from tests.golden.folder import apart
from tests.golden.seldom import STORED_S
from tests.golden.sentences import SEARCHES, SENTENCES
from tests.golden.values import Line, drawn_by, of_markdown

GIB = 2**30
SETTLES: tuple[Settles | None, ...] = ("more rounds", "a quieter machine", "more processes", None)
VERDICTS = (
    ("cannot tell",),
    ("the same",),
    ("the same", "cannot tell"),
    ("cannot tell", "faster"),
    ("the same", "cannot tell", "faster"),
)
SWEPT = (
    (PLAN, "chips=16,64,256", "strong", {}),
    (SMALL_PLAN, "chips=16,64,256", "weak", {}),
    (PLAN, "generation=v5e,v5p,v6e", None, {"v5e": 1.2, "v5p": 4.2, "v6e": 2.7}),
    (SMALL_PLAN, "sequence=512,1024,2048,4096,8192", None, {}),
    (SMALL_PLAN | {"dims": {"batch": 64, "sequence": 2048}}, "chips=16,64,4096", "strong", {}),
)
STATES = ("predicted", "failed", "does not fit", "refused", "waiting")


def doors(lab: Lab, runs: Sequence[Any]) -> Iterator[tuple[str, Callable[[], list[Line]]]]:
    """Name and rendering of each."""
    firsts: dict[tuple[object, ...], Any] = {}
    for each in (one for one in runs if one.state == "succeeded"):
        what = each.experiment
        kind = (screen_of(what), what.workload, what.place.is_absent, bool(what.variants))
        firsts.setdefault(kind, each)
    for each in firsts.values():
        yield f"by-rule/{each.run}", partial(_of_result, lab, each)
    yield "by-rule/sweeps", _of_sweeps
    yield "by-rule/searches", _of_searches


def _of_result(lab: Lab, summary: Any) -> list[Line]:
    """The report of a result after each change, and what screens say of it."""
    facts = lab.facts(summary.run)
    assert facts is not None
    lines, before = [], set[str]()
    for name, changed in _changed(facts):
        document = report_document([Subject(summary, changed, {})])
        texts = [
            *report(changed),
            *strategies.answer_parts(changed),
            *(f"{each.title}: {', '.join(each.texts)}" for each in causes(changed)[1]),
            *(
                remedies.resharded_words(changed, one, changed.row(one).experiment)
                for one in changed.order[:2]
            ),
            *(" | ".join(line) for line in of_markdown(markdown_text(document))),
        ]
        new = [each for each in texts if each not in before]
        before |= {*new}
        lines += [[name], *([each] for each in new)]
    return lines


def _changed(facts: Result) -> Iterator[tuple[str, Result]]:
    """A result as it is, and after each change that says something of it."""
    yield "as it is", facts
    answer = facts.comparison
    for settles, verdicts in enumerate(VERDICTS) if answer and answer.ratios else ():
        assert answer
        ratios = tuple(
            each.model_copy(
                update={
                    "verdict": of,
                    "differs": of == "faster",
                    "interval": (0.9, 1.1) if of == "cannot tell" else each.interval,
                    "settles": SETTLES[(at + settles) % 4] if of == "cannot tell" else None,
                }
            )
            for at, (each, of) in enumerate(zip(answer.ratios, itertools.cycle(verdicts)))
        )
        tied = tuple(each.strategy for each in ratios if each.verdict != "faster")
        new = answer.model_copy(update={"ratios": ratios, "tied": tied})
        yield ", ".join(verdicts), facts.model_copy(update={"comparison": new})
    if answer and answer.fastest in facts.strategies:
        silent = facts.strategies[answer.fastest].model_copy(update={"collectives": ()})
        new = facts.strategies | {answer.fastest: silent}
        change = {"comparison": answer.model_copy(update={"tied": ()}), "strategies": new}
        yield "fastest is silent", facts.model_copy(update=change)
    for name, change in OUTCOMES.items():
        outcomes = {
            each: outcome.model_copy(update=change(outcome))
            for each, outcome in facts.strategies.items()
        }
        if outcomes != facts.strategies:
            yield name, facts.model_copy(update={"strategies": outcomes})
    reversed_ = dict(reversed(facts.strategies.items()))
    yield "reversed", facts.model_copy(update={"strategies": reversed_, "partial": True})


def _of_prediction(**changes: Any) -> Callable[[StrategyResult], dict[str, Any]]:
    """Changes of a prediction, where there is one."""

    def changed(outcome: StrategyResult) -> dict[str, Any]:
        if (known := outcome.prediction) is None:
            return {}
        memory = known.memory_bytes.model_copy(update=changes.get("memory_bytes", {}))
        new = changes | {"memory_bytes": memory}
        none = {"predicted_s": None} if not changes.get("fits", True) else {}
        return {"prediction": known.model_copy(update=new | none), **none}

    return changed


OUTCOMES: Mapping[str, Callable[[StrategyResult], dict[str, Any]]] = {
    "larger than the host": _of_prediction(
        fits=False,
        memory_bytes={"host": 50 * GIB, "missing": 3 * GIB},
        host_capacity_bytes=40 * GIB,
    ),
    "beside the host": _of_prediction(memory_bytes={"host": 5 * GIB}, host_capacity_bytes=40 * GIB),
    "without MFU": _of_prediction(mfu=None, mfu_causal=None, tokens_per_s_per_chip=None),
    "collectives reversed": lambda outcome: {
        "collectives": outcome.collectives and outcome.collectives[::-1]
    },
    "one silent": lambda outcome: {
        "collectives": () if outcome.correct is not None else outcome.collectives
    },
    "untimed": lambda outcome: {"median_s": None, "samples_s": (), "ci95_s": None},
}


def _of_sweeps() -> list[Line]:
    """What is said and drawn of the rows of a sweep, in all states and without what was known."""
    lines = []
    for spec, over, scaling, prices in SWEPT:
        sweep = parse_sweep(parse_experiment(spec), over, *([scaling] if scaling else []))
        rows = curves(points := variants(sweep), [estimated(each) for each in points])
        for listed in _of_rows(rows):
            said = [
                sweep_headline(sweep, listed),
                *sweep_notes(sweep, listed),
                plan_rows.grid_headline(listed, prices),
                *sheet_lines(points_table(listed, "terminal", prices or None, sweep)),
            ]
            lines += [[each] for each in said]
            for name, chart in sweep_charts.charts_of(sweep, listed).items():
                words = sweep_charts.chart_alt(name, sweep, listed)
                lines += [[name, words], *drawn_by(json.dumps(chart))]
    return lines


def _of_rows(rows: Sequence[SweepRow]) -> Iterator[Sequence[SweepRow]]:
    yield rows
    yield rows[::-1]
    yield rows[:1]
    for state in STATES:
        for of in (rows, rows[1:]):
            yield tuple(
                replace(each, outcome=replace(each.outcome, state=state)) if each in of else each
                for each in rows
            )
    yield tuple(
        replace(each, outcome=replace(each.outcome, numbers=replace(now, low_s=1e-9, high_s=1e9)))
        if (now := each.outcome.numbers)
        else each
        for each in rows
    )
    without = {"mfu": None, "tokens_per_s_per_chip": None, "host_bytes": 5 * GIB}
    yield tuple(
        replace(each, outcome=replace(each.outcome, numbers=replace(each.numbers, **without)))
        for each in rows
        if each.outcome.numbers
    )


def _of_searches() -> list[Line]:
    """What is said, listed and drawn of a search whose candidates are changed."""
    with apart() as lab:
        answers = [_answer(lab, id) for id in SEARCHES]
    lines = []
    for answer in answers:
        for name, changed in _of_answers(answer):
            entries = changed.ranking
            lines += [[name, f"{len(entries)} ranked"]]
            lines += [[" ".join(each(changed).split())] for each in SENTENCES]
            lines += [[line] for line in search_lines(changed, 4)]
            lines += [[line] for line in kept_search(changed, "done", STORED_S).remarks]
            for table in (
                ranking_table(changed, "screen", 4),
                best_table(changed),
                every_table(changed.found[:6], changed),
            ):
                lines += [[line] for line in sheet_lines(table)]
            if winner := changed.winner:
                others = [entry.candidate for entry in entries[1:5]]
                lines += [
                    [candidates.beats(winner, each, goal=goal)]
                    for each in others
                    for goal in ("time", "memory")
                ]
                fronts = (
                    charts.front_chart(entries[:9], changed.front),
                    charts.batch_chart(changed.best_by_batch),
                )
                lines += [line for chart in fronts if chart for line in drawn_by(json.dumps(chart))]
    return lines


def _of_answers(answer: Answer) -> Iterator[tuple[str, Answer]]:
    """An answer as it is, and after each change of its candidates."""
    found = answer.found
    yield "as it is", answer
    yield "reversed", replace(answer, found=found[::-1])
    asked = answer.question.to_json()
    prices = {chip.partition(":")[0]: 1.2 for chip in asked.get("chips", ())}
    if prices:
        priced = type(answer.question).model_validate(asked | {"price": prices})
        yield "priced", replace(answer, question=priced)
    ranked = [entry.candidate for entry in answer.ranking]
    for name, change in CANDIDATES.items():
        numbers = {each.number: at for at, each in enumerate(ranked)}
        yield (
            name,
            replace(
                answer,
                found=[
                    replace(each, **change(each, numbers[each.number]))
                    if each.number in numbers
                    else each
                    for each in found
                ],
            ),
        )


def _times(time: Estimate, factor: int) -> Estimate:
    return Estimate(**{end: factor * seconds for end, seconds in time})


CANDIDATES: Mapping[str, Callable[[Any, int], dict[str, Any]]] = {
    "one estimate beside compiled": lambda each, at: {
        "stage": "estimated" if at == 1 else "compiled"
    },
    "without spans": lambda each, at: {"memory_span": None, "stage": "estimated"},
    "longer and smaller": lambda each, at: {
        "predicted": each.predicted and _times(each.predicted, 1 + at % 7),
        "memory_bytes": (each.memory_bytes or GIB) // (1 + at % 7),
    },
    "of two batches": lambda each, at: {"tokens": each.tokens * (1 + at % 2)},
    "unlikely to fit": lambda each, at: {"fits": ("yes", "likely", "unlikely")[at % 3]},
}

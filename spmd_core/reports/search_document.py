"""A search as a document, and two to eight searches beside one another: as a document, a table and
JSON.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from spmd_core.answers import SEARCHES, SearchRow, held_words, kept_ranking
from spmd_core.facts import Estimate
from spmd_core.history import basis_words, between_words, foreign_search_words
from spmd_core.reports.comparison import HERE, NAMES, Subject, check_compared
from spmd_core.reports.comparison_document import against_words
from spmd_core.reports.document import (
    Bar,
    Block,
    Chart,
    Document,
    Folded,
    Heading,
    Paragraph,
    reported,
)
from spmd_core.reports.run_document import Texts, run_blocks, run_title
from spmd_core.results import OTHER_WORK, Between, between_estimates
from spmd_core.search import KeptCandidate, KeptSearch, link
from spmd_core.sheets import NONE, Cell, Sheet, Table, text, turned

_WHY = Sheet[KeptCandidate](
    (text("Candidate", lambda row: row.name, "document"), text("Why", lambda row: row.why))
)
# of the rivals and of the remarks: of training, of serving
_HEADINGS = (
    ("Against the standard shardings", "What was looked at"),
    ("Why not another", "Best sharding by load"),
)


def search_document(
    kept: KeptSearch, subjects: Mapping[str, Subject], texts: Mapping[str, Texts] | None = None
) -> Document:
    """The report. `subjects`: those of its runs that are stored; `texts`: their program texts."""
    blocks = search_blocks(kept)
    for subject in (subjects[run] for run in kept.runs if run in subjects):
        blocks.append(Heading(f"Run: {run_title(subject)}"))
        blocks += run_blocks(subject, (texts or {}).get(subject.run, {}))
    return Document(f"Search: {kept.title}", tuple(blocks))


def search_blocks(kept: KeptSearch) -> list[Block]:
    """What is known of a search, the answer first."""
    rivals, remarks = _HEADINGS[kept.question.get("kind") == link.SERVING]
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.at))
    blocks: list[Block] = [
        Paragraph(kept.words, is_first=True),
        Paragraph(f"Search {kept.id}, {kept.state}{f', {when}' if kept.at else ''}."),
    ]
    if kept.origin:
        blocks.append(Paragraph(foreign_search_words(kept.origin)))
    if kept.is_drawn:
        bars = (Bar(name, seconds) for name, seconds in kept.token_s.items())
        blocks.append(Chart("What takes the time of an output token", tuple(bars)))
        blocks.append(Paragraph(held_words(kept)))
    if kept.ranking:
        blocks += [Heading("Ranking", 3), kept_ranking(kept)]
    if kept.standards:
        blocks.append(Heading(rivals, 3))
        blocks += [Paragraph(f"• {reported(each)}") for each in kept.standards]
    blocks += [Heading(remarks, 3)] * bool(kept.remarks)
    blocks += [Paragraph(reported(each)) for each in kept.remarks]
    if any(each.why for each in kept.ranking):
        why = _WHY.table(kept.ranking, "document")
        blocks.append(Folded("Why not each of the others", why))
    question = json.dumps(kept.question, indent=1, ensure_ascii=False)
    blocks.append(Folded("The question", reported(question)))
    if kept.link:
        blocks.append(Paragraph(f"Its link, behind the address of a dashboard: {kept.link}"))
    return blocks


@dataclass(frozen=True, slots=True)
class ComparedSearches:
    """Searches with their letters, the one that the others are read against, and how the winners
    compare with its winner.
    """

    searches: tuple[tuple[str, KeptSearch], ...]
    baseline: KeptSearch
    answers: tuple[Between, ...]

    @property
    def letters(self) -> dict[str, str]:
        """The letter of each search, by its id."""
        return {each.id: letter for letter, each in self.searches}


def compare_searches(
    searches: Sequence[KeptSearch], baseline: str | None = None
) -> ComparedSearches:
    """Compare searches with a baseline, the first where none is named; RequestError as of runs."""
    check_compared([each.id for each in searches], baseline)
    base = next(each for each in searches if baseline in (None, each.id))
    answers = [_between(each, base) for each in searches if each is not base]
    return ComparedSearches(tuple(zip(NAMES, searches, strict=False)), base, tuple(answers))


def _between(one: KeptSearch, base: KeptSearch) -> Between:
    mine, theirs = one.winner, base.winner
    named = Between(
        run=one.id,
        row=mine.name if mine else "",
        baseline=base.id,
        baseline_row=theirs.name if theirs else "",
        apart=(OTHER_WORK,) * (_work(one) != _work(base)),
    )
    stages = [each.stage == "measured" for each in (mine, theirs) if each]
    one_s, base_s = (_estimate(each) for each in (mine, theirs))
    if mine is None or theirs is None or one_s is None or base_s is None:
        return named.model_copy(update={"why_none": "one has no winner with an interval"})
    if any(stages):
        both = "both were measured, each in a run of its own: compare these"
        why = both if all(stages) else "one was measured, and the other only predicted"
        return named.model_copy(update={"why_none": why})
    return between_estimates(named, one_s, base_s, (mine.tokens, theirs.tokens))


def _estimate(each: KeptCandidate | None) -> Estimate | None:
    if each is None or not (each.low_s and each.high_s and each.seconds):
        return None
    return Estimate(low=each.low_s, estimate=each.seconds, high=each.high_s)


def _work(of: KeptSearch) -> tuple[object, ...]:
    fields = flat(of.question)
    names = (
        "kind",
        "model",
        "sequence",
        "input",
        "output",
        "spec.workload",
        "spec.dims",
        "spec.dtype",
    )
    dims = sorted(name for name in fields if name.startswith("spec.dims."))
    return tuple(str(fields.get(name)) for name in (*names, *dims))


def searches_document(compared: ComparedSearches, with_each: bool = False) -> Document:
    """The comparison, the answers first; with all that is known of each, where wanted."""
    blocks: list[Block] = [
        Paragraph(sentence, is_first=True) for sentence in search_sentences(compared)
    ]
    if basis := basis_words(compared.answers):
        blocks.append(Paragraph(basis))
    blocks += [Heading("Searches"), turned(searches_table(compared))]
    if (differences := question_differences(compared)).rows:
        blocks += [Heading("What differs in the questions"), differences]
    for letter, each in compared.searches:
        blocks.append(Paragraph(f"{letter}: {each.title}. {each.words}"))
    for letter, each in compared.searches if with_each else ():
        blocks += [Heading(f"{letter}: {each.title}"), *search_blocks(each)]
    return Document(f"Comparison of {len(compared.searches)} searches", tuple(blocks))


def search_sentences(compared: ComparedSearches) -> list[str]:
    """How each winner compares with that of the baseline."""
    seconds = {
        each.id: each.winner.seconds if each.winner else None for _, each in compared.searches
    }
    return [
        between_words(
            pair,
            compared.letters,
            {name: seconds[name] for name in (pair.baseline, pair.run)},
        )
        for pair in compared.answers
    ]


def searches_table(compared: ComparedSearches) -> Table:
    """A row for each search: its winner, and how that compares."""
    answers = {each.run: each for each in compared.answers}
    return SEARCHES.table(
        (
            SearchRow(
                letter,
                each,
                each.origin or HERE,
                "baseline" if each is compared.baseline else against_words(answers.get(each.id)),
            )
            for letter, each in compared.searches
        ),
        "document",
    )


def question_differences(compared: ComparedSearches) -> Table:
    """The fields in which the questions differ, and these alone."""
    listed = [flat(each.question) for _, each in compared.searches]
    names = dict.fromkeys(name for each in listed for name in each)
    rows = [(name, [_text(each.get(name)) for each in listed]) for name in names]
    return Table(
        ("", *(letter for letter, _ in compared.searches)),
        tuple((Cell(name), *map(Cell, texts)) for name, texts in rows if len(set(texts)) > 1),
    )


def _text(value: object) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or NONE
    return NONE if value is None else str(value if isinstance(value, str) else json.dumps(value))


def searches_json(compared: ComparedSearches) -> dict[str, object]:
    """The comparison as plain JSON values; seconds and bytes are exact."""
    differences = question_differences(compared)
    return {
        "baseline": compared.baseline.id,
        "sentences": search_sentences(compared),
        "searches": [
            {"id": each.id, "letter": letter, **each.model_dump(mode="json")}
            for letter, each in compared.searches
        ],
        "differences": [
            {
                "part": row[0].text,
                "texts": {
                    each.id: cell.text
                    for (_, each), cell in zip(compared.searches, row[1:], strict=True)
                },
            }
            for row in differences.rows
        ],
        "verdicts": [each.model_dump(mode="json") for each in compared.answers],
    }


def flat(question: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """The fields of a question by name, those of its parts after theirs: `spec.dtype`."""
    fields: dict[str, JsonValue] = {}
    for name, value in question.items():
        parts = flat(value) if isinstance(value, dict) and value else None
        fields |= {f"{name}.{each}": of for each, of in parts.items()} if parts else {name: value}
    return fields

"""A search as a document: the winner and how sure it is, the ranking, the winner's rivals, what was
ruled out, its question and its link.
"""

import json
import time
from collections.abc import Mapping

from spmd_core.answers import NONE, Cell, Table, table_of
from spmd_core.base import number_text
from spmd_core.reports.comparison import Subject
from spmd_core.reports.document import (
    Block,
    Document,
    Folded,
    Heading,
    Paragraph,
    bytes_cell,
    reported,
    seconds_cell,
    share_cell,
)
from spmd_core.reports.run_document import Texts, run_blocks, run_title
from spmd_core.search import KeptCandidate, KeptSearch
from spmd_core.words import foreign_search_words


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
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(kept.at))
    blocks: list[Block] = [
        Paragraph(kept.words, is_first=True),
        Paragraph(f"Search {kept.id}, {kept.state}{f', {when}' if kept.at else ''}."),
    ]
    if kept.origin:
        blocks.append(Paragraph(foreign_search_words(kept.origin)))
    if kept.ranking:
        blocks += [Heading("Ranking", 3), ranking_table(kept)]
    if kept.standards:
        blocks.append(Heading("Against the standard shardings", 3))
        blocks += [Paragraph(f"• {reported(each)}") for each in kept.standards]
    blocks += [Heading("What was looked at", 3)] * bool(kept.remarks)
    blocks += [Paragraph(reported(each)) for each in kept.remarks]
    why = table_of([{"Candidate": Cell(each.name), "Why": Cell(each.why)} for each in kept.ranking])
    if why.rows:
        blocks.append(Folded("Why not each of the others", why))
    question = json.dumps(kept.question, indent=1, ensure_ascii=False)
    blocks.append(Folded("The question", reported(question)))
    if kept.link:
        link = f"Its link, behind the address of a dashboard: {kept.link}"
        blocks.append(Paragraph(link))
    return blocks


def ranking_table(kept: KeptSearch) -> Table:
    """A row for each candidate of the ranking, the best first. Steps of different batches are
    compared, as on the screen, by the time of a billion tokens.
    """
    of_batches = len({each.tokens for each in kept.ranking}) > 1
    title = "Time of 1B" if of_batches else "Time"
    cell = _of_tokens if of_batches else lambda _, seconds: seconds_cell(seconds)
    return table_of(
        [
            {
                "": Cell(str(place)),
                title: cell(each, each.seconds),
                "Low": cell(each, each.low_s),
                "High": cell(each, each.high_s),
                "Candidate": Cell(each.name),
                "Known by": Cell(each.known_by),
                "Memory per device": bytes_cell(each.memory_bytes),
                "Host memory": bytes_cell(each.host_bytes or None),
                "Fits": Cell(each.fits or NONE),
                "Causal MFU": share_cell(each.mfu_causal),
                "MFU": share_cell(each.mfu),
                "Cost": Cell(each.cost or NONE),
                "Other policies": Cell(f"{each.alike:,}", each.alike) if each.alike else Cell(NONE),
            }
            for place, each in enumerate(kept.ranking, 1)
        ]
    )


def _of_tokens(each: KeptCandidate, seconds: float | None) -> Cell:
    value = None if seconds is None else seconds * 1e9 / each.tokens
    return Cell(NONE if value is None else f"{number_text(value / 3600)} h", value)

"""A search as a document: the winner and how sure it is, the ranking, the winner's rivals, what was
ruled out, its question and its link.
"""

import json
import time
from collections.abc import Mapping

from spmd_core.reports.comparison import Subject
from spmd_core.reports.document import (
    NONE,
    Bar,
    Block,
    Cell,
    Chart,
    Document,
    Folded,
    Heading,
    Paragraph,
    Table,
    bytes_cell,
    reported,
    seconds_cell,
    table_of,
)
from spmd_core.reports.run_document import Texts, run_blocks, run_title
from spmd_core.search import KeptSearch
from spmd_core.words import foreign_search_words

_LEAST_S = 1e-15  # of a bar: a shorter one has no axis
_BARS = 10


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
        blocks += [chart for chart in [times_chart(kept)] if chart]
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
    """A row for each candidate of the ranking, the best first."""
    return table_of(
        [
            {
                "": Cell(str(place)),
                "Time": seconds_cell(each.seconds),
                "Low": seconds_cell(each.low_s),
                "High": seconds_cell(each.high_s),
                "Candidate": Cell(each.name),
                "Known by": Cell(each.known_by),
                "Memory per device": bytes_cell(each.memory_bytes),
                "Fits": Cell(each.fits or NONE),
                "MFU": Cell(f"{each.mfu:.1%}", each.mfu) if each.mfu else Cell(NONE),
                "Cost": Cell(each.cost or NONE),
                "Other policies": Cell(f"{each.alike:,}", each.alike) if each.alike else Cell(NONE),
            }
            for place, each in enumerate(kept.ranking, 1)
        ]
    )


def times_chart(kept: KeptSearch) -> Chart | None:
    """The times of the first candidates with their intervals, by their places in the table."""
    bars = tuple(
        Bar(
            f"{place}: {each.name.partition(' · ')[0]}",
            each.seconds,
            each.low_s,
            each.high_s,
            (),
            int(each.stage != "measured"),
        )
        for place, each in enumerate(kept.ranking[:_BARS], 1)
        if each.seconds > _LEAST_S
    )
    return Chart("Times of the first candidates, with their intervals", "s", bars) if bars else None

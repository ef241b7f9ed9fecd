"""A search as a document: the winner and how sure it is, the ranking, the winner's rivals, what was
ruled out, its question and its link.
"""

import json
import time
from collections.abc import Mapping

from spmd_core.answers import kept_ranking
from spmd_core.reports.comparison import Subject
from spmd_core.reports.document import (
    Block,
    Document,
    Folded,
    Heading,
    Paragraph,
    reported,
)
from spmd_core.reports.run_document import Texts, run_blocks, run_title
from spmd_core.search import KeptCandidate, KeptSearch, link
from spmd_core.sheets import Sheet, text
from spmd_core.words import foreign_search_words

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

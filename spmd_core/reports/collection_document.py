"""A collection as a document: the text of people, and between it what each run and search gave."""

import json
import re
import time
from collections.abc import Mapping

from spmd_core.reports.comparison import Subject
from spmd_core.reports.document import Block, Document, Heading, Paragraph
from spmd_core.reports.run_document import Texts, run_blocks, run_title
from spmd_core.results import RUN, TEXT, Collection, CollectionItem

_HEADING = re.compile(r"(#{1,4})\s+(.*)")
_POINT = re.compile(r"\s*[-*]\s+(.*)")


def collection_document(
    collection: Collection,
    subjects: Mapping[str, Subject],
    texts: Mapping[str, Texts] | None = None,
) -> Document:
    """The page. `subjects`: the runs that are stored, by id; `texts`: by run, the program texts
    that are to be in it.
    """
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(collection.updated_at))
    by = f", by {collection.owner_name}" if collection.owner_name else ""
    blocks: list[Block] = [Paragraph(f"Collection {collection.id}, as of {when}{by}.")]
    for item in collection.items:
        if item.kind == TEXT:
            blocks += text_blocks(item.text)
        elif item.kind == RUN and item.text in subjects:
            subject = subjects[item.text]
            blocks.append(Heading(run_title(subject)))
            blocks += run_blocks(subject, (texts or {}).get(item.text, {}))
        elif item.kind == RUN:
            blocks.append(Paragraph(f"Run {item.text} is not stored here."))
        else:
            blocks += [Heading(f"Search {item.text}"), Paragraph(search_words(item))]
    return Document(collection.title, tuple(blocks))


def search_words(item: CollectionItem) -> str:
    """The answer of a search when it was added to a collection."""
    fields = about(item)
    words = fields.get("words")
    return words if isinstance(words, str) and words else "It had no answer yet."


def about(item: CollectionItem) -> Mapping[str, object]:
    """What a collection keeps of a search: `question`, `words`, and `at`, when that was."""
    try:
        fields = json.loads(item.about)
    except (ValueError, RecursionError):
        return {}
    return fields if isinstance(fields, dict) else {}


def text_blocks(text: str) -> list[Block]:
    """A text of people as blocks: headings (`#`), points (`-`), and paragraphs, in which `**bold**`
    and code between backticks are all that is markup.

    >>> [type(each).__name__ for each in text_blocks("# A\\n- b\\nc")]
    ['Heading', 'Paragraph', 'Paragraph']
    """
    blocks: list[Block] = []
    lines: list[str] = []

    def end_of_paragraph() -> None:
        if lines:
            blocks.append(Paragraph(" ".join(lines), is_marked=True))
            lines.clear()

    for line in text.split("\n"):
        heading, point = _HEADING.fullmatch(line), _POINT.fullmatch(line)
        if heading or point or not line.strip():
            end_of_paragraph()
        if heading:
            blocks.append(Heading(heading[2], 2 if len(heading[1]) == 1 else 3))
        elif point:
            blocks.append(Paragraph(f"• {point[1]}", is_marked=True))
        elif line.strip():
            lines.append(line.strip())
    end_of_paragraph()
    return blocks

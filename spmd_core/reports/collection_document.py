"""A collection as a document: the text of people, and between it what each run and search gave."""

import json
import re
import time
from collections.abc import Iterator, Mapping
from itertools import groupby

from spmd_core.base import RequestError
from spmd_core.reports.comparison import FEWEST, MOST, Compared, Subject, compare_runs
from spmd_core.reports.comparison_document import times_chart, verdict_sentences
from spmd_core.reports.document import Block, Document, Heading, Paragraph
from spmd_core.reports.run_document import Texts, run_blocks, run_title
from spmd_core.reports.search_document import (
    ComparedSearches,
    compare_searches,
    search_blocks,
    searches_document,
)
from spmd_core.runs import RUN, SEARCH, TEXT, Collection, CollectionItem
from spmd_core.search import KeptSearch, read_kept

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
    of = f"Collection {collection.id}" if collection.id else "A page of the notebook"
    when = time.strftime(", as of %Y-%m-%d %H:%M", time.localtime(collection.updated_at))
    when *= collection.updated_at > 0  # the example has no moment
    by = f", by {collection.owner_name}" if collection.owner_name else ""
    blocks: list[Block] = [Paragraph(f"{of}{when}{by}.")]
    together = [each for each in parts_of(collection, subjects) if isinstance(each, Compared)]
    first = {each.baseline.run: each for each in together}
    letters = {run: f"{letter}: " for each in together for run, letter in each.letters.items()}
    for item in collection.items:
        if compared := first.pop(item.text, None):
            blocks += [Paragraph(each, is_first=True) for each in verdict_sentences(compared)]
            blocks += filter(None, [times_chart(compared)])
        if item.kind == TEXT:
            blocks += text_blocks(item.text)
        elif item.kind == RUN and item.text in subjects:
            subject = subjects[item.text]
            blocks.append(Heading(letters.get(item.text, "") + run_title(subject)))
            blocks += run_blocks(subject, (texts or {}).get(item.text, {}))
        elif item.kind == RUN:
            blocks.append(Paragraph(f"Run {item.text} is not stored here."))
        else:
            kept = search_of(item)
            blocks += [Heading(f"Search: {kept.title}"), *search_blocks(kept)]
    if (searches := searches_compared(collection)) is not None:
        blocks += [Heading("Its searches side by side"), *searches_document(searches).blocks]
    return Document(collection.title, tuple(blocks))


def parts_of(
    collection: Collection, subjects: Mapping[str, Subject]
) -> Iterator[CollectionItem | Compared]:
    """Yields the parts of a page in order; runs that follow one another, each of which compares with
    the first, as one.
    """
    stored = groupby(collection.items, lambda each: each.kind == RUN and each.text in subjects)
    for is_run, group in stored:
        items = list(group)
        runs = list(dict.fromkeys(each.text for each in items))
        if is_run and FEWEST <= len(runs) <= MOST:
            compared = compare_runs([subjects[run] for run in runs])
            if sum(each.verdict is not None for each in compared.answers) == len(runs) - 1:
                yield compared
                continue
        yield from items


def searches_compared(collection: Collection) -> ComparedSearches | None:
    """The searches of a collection beside one another; None where these are not two to eight."""
    listed = [search_of(each) for each in collection.items if each.kind == SEARCH]
    searches = list({each.id: each for each in listed}.values())
    return compare_searches(searches) if FEWEST <= len(searches) <= MOST else None


def search_of(item: CollectionItem) -> KeptSearch:
    """The search of a part as it was when it was added; of a part that an earlier version made the
    question and the sentence.
    """
    try:
        return read_kept(item.about)
    except RequestError:
        pass
    try:
        return KeptSearch.model_validate({"search": item.text, **json.loads(item.about)})
    except (ValueError, TypeError, RecursionError):
        return KeptSearch(search="unknown")


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

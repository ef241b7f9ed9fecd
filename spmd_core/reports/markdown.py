"""A document as Markdown to paste into a review, and as text for a terminal."""

import re

from spmd_core.base import visible
from spmd_core.reports.document import Block, Chart, Document, Folded, Heading, Paragraph, marked
from spmd_core.sheets import Table

BEGIN = "<!-- SPMD Lab report -->"
_SPECIAL = re.compile(
    r"([\\`*_{}\[\]<>#|~$!@]|(?<=\w)://|www\.|^\s*(?:[-+=]|\d+[.)](?=\s)))", re.MULTILINE
)


def markdown_text(document: Document) -> str:
    """The document as Markdown in which no foreign text is markup; what is folded is a table, or
    left out where it is a program.
    """
    blocks = [text for each in document.blocks if (text := _block(each))]
    return "\n\n".join([BEGIN, f"# {_line(document.title)}", *blocks]) + "\n"


def plain_text(document: Document) -> str:
    """The document as aligned text, without charts and folded parts."""
    parts = [visible(document.title)]
    for block in document.blocks:
        match block:
            case Heading(text):
                parts.append(visible(text))
            case Paragraph(text):
                parts.append(visible(text, keep="\n"))
            case Table():
                parts.append(table_text(block))
    return "\n\n".join(parts)


def _block(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {_line(text)}"
        case Paragraph(text, is_marked=True):
            return _marked_line(text)
        case Paragraph(text, is_note, is_first):
            if is_note:
                return "\n".join(f"> {_marked_line(line)}  " for line in text.split("\n"))
            return f"**{_line(text)}**" if is_first else _line(text)
        case Table():
            return table_markdown(block)
        case Chart(title):
            return f"_{_line(title)}: as numbers in the table._" if not title else ""
        case Folded(title, Table() as content):
            return f"<details><summary>{_line(title)}</summary>\n\n{table_markdown(content)}\n\n</details>"
        case Folded():
            return ""


def _marked_line(text: str) -> str:
    return "".join(_marked(kind, part) for kind, part in marked(text))


def _marked(kind: str, text: str) -> str:
    """A part of a text of people; spaces at its ends are those between words."""
    if kind == "bold":
        return f"**{_line(text)}**"
    if kind == "code":
        return f"`{' '.join(visible(text).split())}`"
    ends = (" " * text[:1].isspace(), " " * (text.strip() != "" and text[-1:].isspace()))
    return f"{ends[0]}{_line(text)}{ends[1]}"


def table_markdown(table: Table) -> str:
    """A table alone, to paste into a review."""
    rows = [table.columns, *(tuple(cell.text for cell in row) for row in table.rows)]
    lines = ["| " + " | ".join(_line(cell) or " " for cell in row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + " --- |" * len(table.columns), *lines[1:]])


def table_text(table: Table) -> str:
    """A table alone, for a terminal."""
    rows = [table.columns, *(tuple(visible(cell.text) for cell in row) for row in table.rows)]
    widths = [max(len(row[at]) for row in rows) for at in range(len(table.columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _line(text: str) -> str:
    """Foreign text as Markdown that shows exactly it, on one line; an address makes no link and a
    name notifies nobody.
    """
    return _SPECIAL.sub(_escaped, " ".join(visible(text, keep="\n\t").split()))


def _escaped(special: re.Match[str]) -> str:
    text = special[0]
    if text in ("<", "@", "://", "www."):  # GitHub reads these behind a backslash, too
        return {"<": "&lt;", "@": "&#64;", "://": "&#58;//", "www.": "www&#46;"}[text]
    if text.strip()[:1].isdigit():
        return f"{text[:-1]}\\{text[-1]}"
    return f"\\{text}" if len(text) == 1 else f"{text[:-1]}\\{text[-1]}"

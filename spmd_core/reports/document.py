"""A document as values: headings, sentences, tables, charts and folded text. Writers make HTML,
Markdown and text of it; no writer decides what is in it.
"""

import csv
import io
import json
import re
import socket
from dataclasses import dataclass, replace

from spmd_core.results import safe_cell
from spmd_core.sheets import Table

_PATH = re.compile(r"(?<![\w.)\]:/])(?:file://)?(?:~|/[\w.+@-]+)(?:/[\w.+@ -]*[\w.+@-])+")
_WINDOWS_PATH = re.compile(r"\b[A-Za-z]:\\(?:[\w.+ -]+\\)*[\w.+-]+")
_MARKED = re.compile(r"(\*\*[^*\n]+\*\*|`[^`\n]+`)")
_LEAST_HOST = 2  # characters: a shorter name is a letter of the text


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a part, of level 2 or 3."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Text of ours, or of people (`is_marked`), in which `**bold**` and code between backticks are
    markup; of a note (`is_note`) line breaks are kept, too.
    """

    text: str
    is_note: bool = False
    is_first: bool = False  # the answer, which is written larger
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """A row of a chart: its middle, its interval, and single values, all in seconds."""

    label: str
    middle: float
    low: float | None = None
    high: float | None = None
    values: tuple[float, ...] = ()
    group: int = 0  # which color
    marker: str = ""  # its row's, as on screens


@dataclass(frozen=True, slots=True)
class Chart:
    """Bars from zero over one axis, in seconds."""

    title: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """Something long behind a line: a text word for word, or a table."""

    title: str
    content: "str | Table"


Block = Heading | Paragraph | Table | Chart | Folded


@dataclass(frozen=True, slots=True)
class Document:
    """A title, and what is below it."""

    title: str
    blocks: tuple[Block, ...]


def marked(text: str) -> list[tuple[str, str]]:
    """A text of people as (kind, text), where the kind is `bold`, `code`, or empty.

    >>> marked("a **b** `c`")
    [('', 'a '), ('bold', 'b'), ('', ' '), ('code', 'c')]
    """
    parts: list[tuple[str, str]] = []
    for part in _MARKED.split(text):
        if len(part) > 4 and part.startswith("**") and part.endswith("**"):
            parts.append(("bold", part[2:-2]))
        elif len(part) > 2 and part.startswith("`") and part.endswith("`"):
            parts.append(("code", part[1:-1]))
        elif part:
            parts.append(("", part))
    return parts


def json_of(table: Table) -> str:
    """A table as a JSON list of rows: exact numbers where there are some."""
    rows = [
        {
            name or "letter": cell.text if cell.value is None else cell.value
            for name, cell in zip(table.columns, row, strict=True)
        }
        for row in table.rows
    ]
    return json.dumps(rows, ensure_ascii=False, indent=1)


def reported(text: str) -> str:
    """What a program or compiler wrote, without what names this machine: absolute paths are their
    last part, its host name is `[host]`.

    >>> reported("error in /home/ann/work/layer.py:12")
    'error in layer.py:12'
    """
    short = _PATH.sub(lambda path: path[0].rstrip("/").rpartition("/")[2], text)
    short = _WINDOWS_PATH.sub(lambda path: path[0].rpartition("\\")[2], short)
    host = socket.gethostname()
    for name in {host, host.partition(".")[0]}:
        if len(name) >= _LEAST_HOST and name != "localhost":
            short = re.sub(rf"(?<!\w){re.escape(name)}(?!\w)", "[host]", short)
    return short


def reported_table(table: Table) -> Table:
    """Returns a table whose texts do not name this machine."""
    rows = [tuple(replace(cell, text=reported(cell.text)) for cell in row) for row in table.rows]
    return replace(table, rows=tuple(rows))


def csv_of(table: Table) -> str:
    """A table as CSV: exact numbers where there are some, and no cell that a spreadsheet runs."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(safe_cell, table.columns))
    for row in table.rows:
        writer.writerow(
            [safe_cell(cell.text) if cell.value is None else cell.value for cell in row]
        )
    return text.getvalue()

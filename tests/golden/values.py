"""Values of a rendering: its numbers with their units, its flags, and its rows in order."""

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from html.parser import HTMLParser
from typing import Any

Line = list[str]  # the cells of a row; one cell: prose

_UNITS = (
    r"[kKMGTP]i?B(?:/s)?|B(?:/s)?|[mµun]?s|min|h|d|%|×|x|[kMGTPE]?FLOP(?:/s|s)?|[kMGT]?FLOP/B|"
    r"tokens?(?:/s(?:/chip)?)?|chip-(?:seconds|hours|s)|chips?|devices?|rows?|GHz|\$"
)
_NUMBER = re.compile(
    r"(?<![\w.])[-−+$]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\d])(?:\s?(?:" + _UNITS + r")(?![\w/]))?"
)
_FLAG = re.compile(
    r"does not fit|do not fit|not fit|too much|\bfits?\b|\bnot \w+|\bno\b|\byes\b|\bnone\b|\bwrong\b|"
    r"\bright\b|\bfastest\b|\bfaster\b|\bslower\b|\bbest\b|\bmatch(?:es)?\b|\bsame\b|\bfail(?:ed|s)?\b|"
    r"\blowest\b|\bmore\b|\bless\b|\bcancelled\b|\bover\b|\bhidden\b|\bexposed\b|✓|✗|–",
    re.IGNORECASE,
)
# of a run that is a day old the date stands there, and as the heading of its day
_AGO = re.compile(
    r"(?:just now|\b(?:an?|\d+) (?:second|minute|hour|day|week|month|year)s? ago|\b\d+ \w+ ago"
    r"|\b\d{4}-\d\d-\d\d \d\d:\d\d\b"
    r"|\b(?:Today|Yesterday|(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day, \d{1,2} \w+(?: \d{4})?)\b)"
)
_PLACED = re.compile(
    r"\s(?:x|y|x1|y1|x2|y2|width|height|cx|cy|r|d|points|transform|viewBox|stroke-width|font-size|"
    r'opacity|style)="([^"]*)"'
)
_WRITTEN = re.compile(r"(?<![\w#.])-?\d+(?:\.\d+)?(?:e-?\d+)?")  # of what is drawn
_ALTS = re.compile(r'\s(?:alt|aria-label)="([^"]*)"')
_LONG = 4  # items of a list in JSON: of others the sum of their numbers is held
_SHORT = 40  # characters of a cell that is a name or a flag


def normal(text: str) -> str:
    """A text without what depends on the moment or on the width of a column."""
    return " ".join(_AGO.sub("AGO", text).replace("\\", "").split())


def numbers(text: str) -> list[str]:
    """The numbers of a text with their units, in order."""
    return [each.replace("−", "-").replace(" ", "") for each in _NUMBER.findall(text)]


def cell(text: str) -> str:
    """The value of a cell: its numbers; a short text without any as it is."""
    found = numbers(text)
    flags = [each.casefold() for each in _FLAG.findall(text)]
    if found or len(text) > _SHORT:
        return " ".join(found + flags)
    return text.casefold()


def rows(lines: Sequence[Line]) -> list[str]:
    """The rows of tables in order, by the values of their cells."""
    return [" | ".join(map(cell, line)) for line in lines if len(line) > 1]


def prose(lines: Sequence[Line]) -> Counter[str]:
    """Numbers and flags of sentences, each with how often it occurs."""
    texts = [line[0] for line in lines if len(line) == 1]
    found = (each for text in texts for each in numbers(text))
    flags = (each.casefold() for text in texts for each in _FLAG.findall(text))
    return Counter([*found, *flags])


# Readers of a rendering
# ------------------------------------------------------------------------------------------------


def of_terminal(text: str) -> list[Line]:
    """Lines of the terminal; columns stand two spaces apart."""
    lines = [re.split(r"\s{2,}", line.strip()) for line in text.splitlines() if line.strip()]
    return [[normal(each) for each in line] for line in lines]


def of_markdown(text: str) -> list[Line]:
    """Lines of Markdown, its tables as rows."""
    lines = []
    for line in filter(str.strip, text.splitlines()):
        cells = re.split(r"(?<!\\)\|", line.strip().strip("|")) if line.startswith("|") else [line]
        if not all(set(each.strip()) <= set("-:") for each in cells):
            lines.append([normal(each) for each in cells])
    return lines


def of_csv(text: str) -> list[Line]:
    """Rows of CSV."""
    return [[normal(each) for each in row] for row in csv.reader(io.StringIO(text))]


def of_json(text: str) -> list[Line]:
    """Every leaf of JSON, behind its path; sentences as prose."""
    return [line for each in text.splitlines() for line in _leaves("", json.loads(each))]


def _leaves(path: str, value: Any) -> Iterator[Line]:
    if isinstance(value, dict):
        for name in value:
            yield from _leaves(f"{path}.{name}", value[name])
    elif isinstance(value, list):
        if len(value) > _LONG:
            held = list(_numbers(value))
            yield [path, f"{len(value)} items", f"{len(held)} numbers", f"{math.fsum(held):.9g}"]
        for number, each in enumerate(value[:_LONG]):
            yield from _leaves(f"{path}.{number}", each)
    elif isinstance(value, str) and " " in value:
        yield [f"{path}: {normal(value)}"]
    else:
        yield [path, json.dumps(value, ensure_ascii=False)]


def _numbers(value: Any) -> Iterator[float]:
    """The numbers anywhere in a value of JSON."""
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _numbers(each)
    elif isinstance(value, int | float):
        yield value


class _Html(HTMLParser):
    """Collects rows of tables, and the texts between them."""

    _BREAKS = frozenset(
        ["p", "h1", "h2", "h3", "h4", "div", "tr", "table", "pre", "summary", "text", "title", "li"]
    )

    def __init__(self):
        super().__init__()
        self.lines: list[Line] = []
        self._row: Line | None = None
        self._text: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "script")
        if tag in self._BREAKS or tag in ("td", "th"):
            self.end()
        if tag == "tr":
            self._row = []

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "script")
        if tag in ("td", "th") and self._row is not None:
            self._row.append(normal("".join(self._text)))
            self._text = []
        if tag == "tr" and self._row is not None:
            self.lines.append(self._row)
            self._row = None
        if tag in self._BREAKS:
            self.end()

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self._text.append(data)

    def end(self) -> None:
        """Take what was written since the last line as one."""
        if self._row is None:
            if text := normal("".join(self._text)):
                self.lines.append([text])
            self._text = []


def of_html(text: str) -> list[Line]:
    """Rows of tables of a document, and its texts."""
    reader = _Html()
    reader.feed(text)
    reader.close()
    reader.end()
    alts = ([f"alt: {normal(each)}"] for each in _ALTS.findall(text))
    return [*reader.lines, *alts, *_shapes(text)]


def _shapes(body: str) -> Iterator[Line]:
    return _summed(each for text in _PLACED.findall(body) for each in _WRITTEN.findall(text))


def drawn_by(chart: str) -> Iterator[Line]:
    """The places and sizes in the description of a chart, as JSON."""
    return _summed(_WRITTEN.findall(chart))


def _summed(written: Iterable[str]) -> Iterator[Line]:
    """Numbers as how many they are, their sum, and the sum of each times its place."""
    if found := [*map(float, written)]:
        placed = sum(at * each for at, each in enumerate(found))
        yield ["drawn", f"{len(found)} numbers", f"{sum(found):.6g}", f"{placed:.6g}"]


READERS = {
    "text": of_terminal,
    "md": of_markdown,
    "csv": of_csv,
    "json": of_json,
    "html": of_html,
}

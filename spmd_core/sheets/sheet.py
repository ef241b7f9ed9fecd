"""Sheets: the columns of a kind of row, each written once, for every renderer; and rows as aligned
text.
"""

import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, Generic, Literal, TypeVar

from spmd_core.base import (
    bytes_text,
    count_text,
    even_seconds,
    number_text,
    refuse,
    shorten,
    span_text,
    three_digits,
)

NONE = "–"  # of a cell without a value, everywhere
Row = TypeVar("Row")
Other = TypeVar("Other")
# A screen and a terminal have room for few columns; the screen of a study has no tables below the
# first. A document is kept, so it has the exact ends of each interval, and CSV is written of it.
Place = Literal["screen", "study", "terminal", "document"]
EVERYWHERE: tuple[Place, ...] = ("screen", "study", "terminal", "document")


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table. `value` is the exact number that `text` shows rounded, in seconds, bytes
    or as it is; None where there is none.
    """

    text: str
    value: float | None = None


EMPTY = Cell(NONE)


@dataclass(frozen=True)
class Table:
    """Rows of cells below their columns; the first cell of a row names it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]

    def column(self, name: str) -> tuple[Cell, ...]:
        """Returns the cells of a column. ValueError where the table has none of that name."""
        at = self.columns.index(name)
        return tuple(row[at] for row in self.rows)

    def is_number(self, name: str) -> bool:
        """Returns True if a column has numbers and nothing but numbers and dashes."""
        cells = [cell for cell in self.column(name) if cell.text != NONE]
        return bool(cells) and all(cell.value is not None for cell in cells)


@dataclass(frozen=True, slots=True)
class Column(Generic[Row]):
    """A column of a sheet.

    Attributes:
      title: its heading, and its name in links, in `--columns` and in CSV.
      of: returns a row's value: a number in the base unit (seconds, bytes, a share of 1), a text, a
        cell, or None where there is none.
      form: writes a number.
      places: the renderers that show it.
      is_kept: True if it stays where it is empty in every row.
    """

    title: str
    of: Callable[[Row], Any]
    form: Callable[[Any], str] = str
    places: tuple[Place, ...] = EVERYWHERE
    is_kept: bool = False

    def cell(self, row: Row) -> Cell:
        """Returns the cell of a row."""
        value = self.of(row)
        if isinstance(value, Cell):
            return value
        if value is None or value == "":
            return EMPTY
        return Cell(value) if isinstance(value, str) else Cell(self.form(value), value)

    def within(self, part: "Callable[[Other], Row]") -> "Column[Other]":
        """Returns the same column of rows that have this kind of row as a part."""
        return Column(
            self.title, lambda row: self.of(part(row)), self.form, self.places, self.is_kept
        )


def seconds(title: str, of: Callable[[Row], float | None], *places: Place) -> Column[Row]:
    """Returns a column of durations in seconds, with three digits each."""
    return Column(title, of, even_seconds, places or EVERYWHERE)


def per_second(title: str, of: Callable[[Row], float | None], *places: Place) -> Column[Row]:
    """Returns a column of rates, with three digits each, zeros too."""
    return Column(title, of, three_digits, places or EVERYWHERE)


def size(title: str, of: Callable[[Row], int | None], *places: Place) -> Column[Row]:
    """Returns a column of sizes in bytes."""
    return Column(title, of, bytes_text, places or EVERYWHERE)


def number(title: str, of: Callable[[Row], float | None], *places: Place) -> Column[Row]:
    """Returns a column of numbers in three significant digits."""
    return Column(title, of, number_text, places or EVERYWHERE)


def count(title: str, of: Callable[[Row], int | None], *places: Place) -> Column[Row]:
    """Returns a column of integers."""
    return Column(title, of, count_text, places or EVERYWHERE)


def text(title: str, of: Callable[[Row], str | None], *places: Place) -> Column[Row]:
    """Returns a column of texts."""
    return Column(title, of, places=places or EVERYWHERE)


def between(title: str, of: Callable[[Row], tuple[float, float] | None]) -> tuple[Column[Row], ...]:
    """Returns the columns of an interval in seconds: one text where a person looks, its two exact
    ends in a document.
    """

    def ends(row: Row) -> str | None:
        interval = of(row)
        return span_text(interval[0], interval[1]) if interval else None

    def end(at: int) -> Callable[[Row], float | None]:
        return lambda row: interval[at] if (interval := of(row)) else None

    return (
        text(title, ends, "screen", "study", "terminal"),
        seconds("Low", end(0), "document"),
        seconds("High", end(1), "document"),
    )


@dataclass(frozen=True)  # typing sets an attribute on `Sheet[Row](…)`, which slots refuse
class Sheet(Generic[Row]):
    """The columns of a kind of row, in order."""

    columns: tuple[Column[Row], ...]

    def table(self, rows: Iterable[Row], place: Place) -> Table:
        """Returns the table of rows for a renderer, without the columns that are empty everywhere."""
        listed = list(rows)
        cells = {
            column: [column.cell(row) for row in listed]
            for column in self.columns
            if place in column.places
        }
        kept = [
            column
            for column, own in cells.items()
            if column.is_kept or any(cell.text != NONE for cell in own)
        ]
        return Table(
            tuple(column.title for column in kept),
            tuple(zip(*(cells[column] for column in kept), strict=True)),
        )


def chosen_columns(table: Table, names: Sequence[str]) -> Table:
    """Returns a table with some of its columns, in the order named, the first one always; all
    columns where none is named.

    Raises:
      RequestError: the table has none of a name.
    """
    if not names:
        return table
    for name in names:
        if name not in table.columns:
            fix = f"use one of {', '.join(each for each in table.columns if each)}"
            raise refuse(f"column {shorten(name)}", "is not in the table", fix)
    places = [0, *(table.columns.index(name) for name in names)]
    places = list(dict.fromkeys(places))
    return Table(
        tuple(table.columns[at] for at in places),
        tuple(tuple(row[at] for at in places) for row in table.rows),
    )


def turned(table: Table) -> Table:
    """Returns a table with its rows as columns, without those that no row has a value in: a few long
    rows are read side by side.
    """
    names = [row[0].text for row in table.rows]
    cells = zip(*(row[1:] for row in table.rows), strict=True)
    rows = zip(map(Cell, table.columns[1:]), cells, strict=True)
    filled = ((name, *row) for name, row in rows if any(cell.text != NONE for cell in row))
    return Table((table.columns[0], *names), tuple(filled))


_GAP = "  "


def sheet_lines(sheet: Table) -> list[str]:
    """Returns the lines of a sheet's table: numbers right-aligned, as wide as the terminal."""
    numbers = [at for at, name in enumerate(sheet.columns) if sheet.is_number(name)]
    rows = [[cell.text.replace("`", "") for cell in row] for row in sheet.rows]
    return table([sheet.columns, *rows], numbers=numbers) if rows else []


def table(rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> list[str]:
    """Returns aligned columns, the first row being the head. Cells that do not fit the terminal's
    width go on in the line below.

    Args:
      rows: texts, as many in each row.
      numbers: the places of right-aligned columns.
    """
    listed = [list(row) for row in rows]
    columns = list(zip(*listed, strict=True))
    widths = _fitting(columns, [max(map(len, column)) for column in columns])
    return [line for row in listed for line in _lines(row, widths, numbers)]


def _lines(row: Sequence[str], widths: Sequence[int], numbers: Sequence[int]) -> Iterator[str]:
    wrapped = [
        [text]
        if len(text) <= width
        else textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)
        for text, width in zip(row, widths, strict=True)
    ]
    for parts in zip_longest(*wrapped, fillvalue=""):
        cells = (
            part.rjust(width) if at in numbers else part.ljust(width)
            for at, (part, width) in enumerate(zip(parts, widths, strict=True))
        )
        yield _GAP.join(cells).rstrip()


def _fitting(columns: Sequence[Sequence[str]], widths: list[int]) -> list[int]:
    """Takes what is too much for the terminal from the widest columns, of which no word is broken."""
    words = [
        max((len(word) for text in column for word in text.split()), default=0)
        for column in columns
    ]
    for _ in range(sum(widths) + len(_GAP) * (len(widths) - 1) - _room()):
        spare = [width - least for width, least in zip(widths, words, strict=True)]
        widest = max(range(len(widths)), key=lambda at: (spare[at] > 0, widths[at]))
        if spare[widest] <= 0:
            break
        widths[widest] -= 1
    return widths


def _room() -> int:
    """Characters in a line; a file or another program takes lines of any length."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize

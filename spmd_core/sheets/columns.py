"""Rows as aligned columns of text."""

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from spmd_core.sheets.sheet import Table

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

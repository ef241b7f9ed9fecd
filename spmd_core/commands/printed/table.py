"""Rows as aligned columns of text."""

from collections.abc import Iterable, Sequence


def table(rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> list[str]:
    """One line per row, the first being the head; the columns whose places are in `numbers` stand
    right-aligned.
    """
    listed = [list(row) for row in rows]
    widths = [max(len(row[place]) for row in listed) for place in range(len(listed[0]))]
    lines = []
    for row in listed:
        cells = [
            cell.rjust(width) if place in numbers else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines

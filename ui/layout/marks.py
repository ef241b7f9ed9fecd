"""The marks of a picture of cells: coloured rectangles, the labels inside them, and the words
around them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ui.layout.grid import CHARACTER, LEAST_FONT, WIDTH, Digit, Grid, Ints

LABEL_FONT, _DETAIL_FONT, _EDGE_FONT = 13.0, 10.5, 11.0  # pixels
Columns = dict[str, list[Any]]
# dim, first block, block after the last -> its label, and where only the start has room
Edge = Callable[[int, int, int], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Marks:
    """Columns of the three kinds of marks: `cells`, labels `inside` them, words `outside`. Heights
    in pixels.
    """

    cells: Columns = field(default_factory=lambda: {name: []
                                                    for name in ("x", "x2", "y", "y2", *TOLD)})
    inside: Columns = field(default_factory=lambda: {name: []
                                                     for name in ("x", "y", "text", "size",
                                                                  "most")})
    outside: Columns = field(default_factory=lambda: {name: []
                                                      for name in ("x", "y", "text", "size",
                                                                   "align", "weight")})


# of every cell, besides its place
TOLD = ("color", "key", "devices", "mesh", "holds", "bytes", "same")


def add_title(marks: Marks, top: float, title: str, roles: str) -> float:
    """Append what a picture shows and what its rows and columns are, in two lines where one is too
    short; returns the pixels that they take.
    """
    _word(marks, 0.0, top + 9.0, title, 13.0, "left", "bold")
    if 7.6 * len(title) + 6.2 * len(roles) < WIDTH:
        _word(marks, WIDTH, top + 9.0, roles, 11.5, "right")
        return 26.0
    _word(marks, 0.0, top + 27.0, roles, 11.5, "left")
    return 42.0


def add_cells(marks: Marks, grid: Grid, top: float, told: Columns, labels: list[str],
              details: list[str]) -> None:
    """Append the tiles of a picture, and in them the labels, with details in a second line where
    both fit.
    """
    left, upper = grid.corners()
    gap = 1.0 if grid.cell_width >= 8 else 0.0
    places = {"x": left + gap, "x2": left + grid.cell_width - gap, "y": upper + top + gap,
              "y2": upper + top + grid.cell_height - gap}
    for name, values in places.items():
        marks.cells[name] += values.tolist()
    for name in TOLD:
        marks.cells[name] += told[name]
    fit, small = _font(labels, grid), _font(details, grid) if grid.cell_height >= 30 else 0.0
    up, down = (0.5 * _DETAIL_FONT, 0.65 * LABEL_FONT) if small >= LEAST_FONT else (0.0, 0.0)
    for texts, font, most, offset in ((labels, fit, LABEL_FONT, -up),
                                      (details, small, _DETAIL_FONT, down)):
        if font >= LEAST_FONT:
            marks.inside["x"] += (left + grid.cell_width / 2).tolist()
            marks.inside["y"] += (upper + top + grid.cell_height / 2 + offset).tolist()
            marks.inside["text"] += texts
            marks.inside["size"] += [font] * len(texts)
            marks.inside["most"] += [min(most, 0.62 * grid.cell_height)] * len(texts)


def _font(texts: list[str], grid: Grid) -> float:
    """The font size, in pixels, in which the longest of the texts fills a cell of a picture WIDTH
    pixels wide; 0 where there is no text.
    """
    longest = max(map(len, texts), default=0)
    return (grid.cell_width - 2.0) / (CHARACTER * longest) if longest else 0.0


def add_edges(marks: Marks, grid: Grid, top: float, edge: Edge, name: Callable[[int], str]) -> None:
    """Append the labels of columns and rows, and the captions of panels, which start with the dim's
    name.
    """
    row, column, panel = grid.rows.of(grid.tiles), grid.columns.of(grid.tiles), grid.panel_of
    left, upper = grid.corners()
    if grid.rows.dim != grid.columns.dim or grid.rows.size == 1:
        heads = np.flatnonzero(row == 0)
        whole, starts = _edge_texts(grid, grid.columns, heads, edge)
        every = _every(whole, grid.cell_width)
        fits = every == 1
        every = 1 if fits else _every(starts, grid.cell_width)
        for tile, text in zip(heads, whole if fits else starts, strict=True):
            if column[tile] % every == 0:
                place = left[tile] + grid.cell_width / 2 if fits else left[tile] + 1.0
                _word(marks, place, upper[tile] + top - 8.0, text, _EDGE_FONT,
                      "center" if fits else "left")
    if grid.rows.dim != grid.columns.dim or grid.rows.size > 1:
        sides = np.flatnonzero((column == 0) & (panel % grid.panels_across == 0))
        for tile, text in zip(sides, _edge_texts(grid, grid.rows, sides, edge)[0], strict=True):
            if grid.cell_height >= 11 or row[tile] % 2 == 0:
                _word(marks, left[tile] - 6.0, upper[tile] + top + grid.cell_height / 2, text,
                      _EDGE_FONT, "right")
    if grid.panels:
        corners = np.flatnonzero((row == 0) & (column == 0))
        parts = [[f"{name(digit.dim)}{text}" for text in _edge_texts(grid, digit, corners, edge)[0]]
                 for digit in grid.panels]
        for tile, words in zip(corners, zip(*parts, strict=True), strict=True):
            _word(marks, left[tile], upper[tile] + top - 23.0, ", ".join(words), _EDGE_FONT, "left",
                  "bold")


def _every(texts: list[str], room: float) -> int:
    """How many labels apart stand clear of one another."""
    return max(1,
               int(np.ceil(_EDGE_FONT * CHARACTER
                           * (max(map(len, texts), default=0) + 0.6) / room)))


def _edge_texts(grid: Grid, digit: Digit, tiles: Ints, edge: Edge) -> tuple[list[str], list[str]]:
    """The labels of the blocks that a digit of these tiles stands for: whole, and the start alone."""
    step, count = grid.steps[digit.dim], grid.counts[digit.dim]
    firsts = (grid.tiles[tiles, digit.dim] // digit.weight * digit.weight * step).tolist()
    pairs = [edge(digit.dim, first, min(first + digit.weight * step, count)) for first in firsts]
    return [whole for whole, _ in pairs], [start for _, start in pairs]


def _word(marks: Marks, x: float, y: float, text: str, size: float, align: str,
          weight: str = "normal") -> None:
    for name, value in (("x", float(x)), ("y", float(y)), ("text", text), ("size", size),
                        ("align", align), ("weight", weight)):
        marks.outside[name].append(value)

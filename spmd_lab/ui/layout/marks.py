"""The marks of a picture of cells: colored rectangles, the labels inside them, and the words
around them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Any

import numpy as np

from spmd_lab.ui.layout.grid import CHARACTER, LEAST_FONT, WIDTH, Digit, Floats, Grid, Ints

_PLACE = ("down", "index", "need", "room")
_ALONE = (0.0, 0.0, 0.0, 1.0)  # a word that is in no line
_NARROW = 400.0  # pixels: a longer title has its second part below, for the narrowest windows
_LINE = 62  # characters of a line of it there
LABEL_FONT, _DETAIL_FONT, _EDGE_FONT = 13.0, 10.5, 11.0  # pixels
Columns = dict[str, list[Any]]
# dim, first block, block after the last -> its label, and where only the start has room
Edge = Callable[[int, int, int], tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Marks:
    """Columns of the three kinds of marks: `cells`, labels `inside` them, words `outside`. Heights
    in pixels.

    A picture to scale keeps its proportions in a narrow window: of a mark's `y`, the part `body`
    shrinks with the width there is, and where it is `exact`, its `x` does not grow past WIDTH. Of
    words in a line (`down` or across), number `index` is left out where `room` for each is less
    than they `need`; labels of cells shrink with their `room`.
    """

    cells: Columns = field(
        default_factory=lambda: _columns(
            "x", "x2", "y", "y2", "body", "body2", "exact", *SHOWN, OUTLINED
        )
    )
    inside: Columns = field(
        default_factory=lambda: _columns("x", "y", "body", "exact", "text", "size", "most", "room")
    )
    outside: Columns = field(
        default_factory=lambda: _columns(
            "x", "y", "body", "exact", "text", "size", "align", "weight", *_PLACE
        )
    )


def _columns(*names: str) -> Columns:
    return {name: [] for name in names}


# of every cell, besides its place
SHOWN = ("color", "key", "devices", "mesh", "holds", "bytes", "same")
OUTLINED = "outlined"  # whether a cell has an outline


def add_title(marks: Marks, top: float, title: str, roles: str, above: float = 0.0) -> float:
    """Append what a picture shows and what its rows and columns are, in two lines where one is too
    short; returns the pixels that they take. `above`: what shrinks of the pixels above.
    """
    _word(marks, 0.0, (top + 9.0, above), title, 13.0, "left", "bold")
    if 7.6 * len(title) + 6.2 * len(roles) < _NARROW:
        _word(marks, WIDTH, (top + 9.0, above), roles, 11.5, "right")
        return 26.0
    lines = wrap(roles, _LINE) or [""]
    for at, line in enumerate(lines):
        _word(marks, 0.0, (top + 27.0 + 15.0 * at, above), line, 11.5, "left")
    return 27.0 + 15.0 * len(lines)


def shrinking(grid: Grid, above: float) -> tuple[Floats, float, bool]:
    """Of the top of every tile what shrinks in a narrow window, and of a tile; whether it does."""
    if grid.stretch is None:
        return np.full(len(grid.tiles), above), 0.0, False
    return grid.body_above() + above, grid.cell_height, True


def _append(columns: Columns, **values: list[Any]) -> None:
    for name, column in values.items():
        columns[name] += column


def add_cells(
    marks: Marks,
    grid: Grid,
    at: tuple[float, float],
    shown: Columns,
    labels: list[str],
    details: list[str],
) -> None:
    """Append the tiles of a picture, and in them the labels, with details in a second line where
    both fit. `at`: pixels above it, and how many of them shrink.
    """
    left, upper = grid.corners()
    top, (body, tall, exact) = at[0], shrinking(grid, at[1])
    gap = 1.0 if grid.cell_width >= 8 else 0.0
    _append(
        marks.cells,
        x=(left + gap).tolist(),
        x2=(left + grid.cell_width - gap).tolist(),
        y=(upper + top + gap).tolist(),
        y2=(upper + top + grid.cell_height - gap).tolist(),
        body=body.tolist(),
        body2=(body + tall).tolist(),
        exact=[float(exact)] * len(left),
        **{name: shown[name] for name in SHOWN},
        outlined=shown.get(OUTLINED, [False] * len(left)),
    )
    place = {"x": left + grid.cell_width / 2, "body": body + tall / 2, "exact": float(exact)}
    middle = upper + top + grid.cell_height / 2
    fit, small = _font(labels, grid), _font(details, grid) if grid.cell_height >= 30 else 0.0
    up, down = (0.5 * _DETAIL_FONT, 0.65 * LABEL_FONT) if small >= LEAST_FONT else (0.0, 0.0)
    _add_labels(marks, grid, labels, fit, LABEL_FONT, place | {"y": middle - up})
    _add_labels(marks, grid, details, small, _DETAIL_FONT, place | {"y": middle + down})


def _add_labels(
    marks: Marks,
    grid: Grid,
    texts: list[str],
    size: float,
    most: float,
    place: dict[str, Floats | float],
) -> None:
    if size < LEAST_FONT:
        return
    room = 0.62 * grid.cell_height
    numbers = place | {"size": size, "most": min(most, room), "room": room}
    columns = {name: np.broadcast_to(each, len(texts)).tolist() for name, each in numbers.items()}
    _append(marks.inside, text=texts, **columns)


def _font(texts: list[str], grid: Grid) -> float:
    """The font size, in pixels, in which the longest of the texts fills a cell of a picture WIDTH
    pixels wide; 0 where there is no text.
    """
    longest = max(map(len, texts), default=0)
    return (grid.cell_width - 2.0) / (CHARACTER * longest) if longest else 0.0


def add_edges(
    marks: Marks, grid: Grid, at: tuple[float, float], edge: Edge, name: Callable[[int], str]
) -> None:
    """Append the labels of columns and rows, and the captions of panels, which start with the dim's
    name.
    """
    if grid.rows.dim != grid.columns.dim or grid.rows.size == 1:
        _heads(marks, grid, at, edge)
    if grid.rows.dim != grid.columns.dim or grid.rows.size > 1:
        _sides(marks, grid, at, edge)
    if grid.panels:
        left, upper = grid.corners()
        body, _, exact = shrinking(grid, at[1])
        row, column = grid.rows.of(grid.tiles), grid.columns.of(grid.tiles)
        corners = np.flatnonzero((row == 0) & (column == 0))
        parts = [
            [f"{name(digit.dim)}{text}" for text in _edge_texts(grid, digit, corners, edge)[0]]
            for digit in grid.panels
        ]
        for tile, words in zip(corners, zip(*parts, strict=True), strict=True):
            _word(
                marks,
                left[tile],
                (upper[tile] + at[0] - 23.0, body[tile]),
                ", ".join(words),
                _EDGE_FONT,
                "left",
                "bold",
                exact,
            )


def _heads(marks: Marks, grid: Grid, at: tuple[float, float], edge: Edge) -> None:
    left, upper = grid.corners()
    body, _, exact = shrinking(grid, at[1])
    column = grid.columns.of(grid.tiles)
    heads = np.flatnonzero(grid.rows.of(grid.tiles) == 0)
    ranges, starts = _edge_texts(grid, grid.columns, heads, edge)
    every = _every(ranges, grid.cell_width)
    fits = every == 1 or grid.columns.size == 1
    every = 1 if fits else _every(starts, grid.cell_width)
    need = _length(ranges if fits else starts)
    for tile, text in zip(heads, ranges if fits else starts, strict=True):
        if column[tile] % every == 0:
            place = left[tile] + grid.cell_width / 2 if fits else left[tile] + 1.0
            _word(
                marks,
                place,
                (upper[tile] + at[0] - 8.0, body[tile]),
                text,
                _EDGE_FONT,
                "center" if fits else "left",
                exact=exact,
                place=(0.0, column[tile] / every, need, grid.cell_width * every),
            )


def _sides(marks: Marks, grid: Grid, at: tuple[float, float], edge: Edge) -> None:
    left, upper = grid.corners()
    body, tall, exact = shrinking(grid, at[1])
    row, first = grid.rows.of(grid.tiles), grid.columns.of(grid.tiles) == 0
    sides = np.flatnonzero(first & (grid.panel_of % grid.panels_across == 0))
    for tile, text in zip(sides, _edge_texts(grid, grid.rows, sides, edge)[0], strict=True):
        middle = upper[tile] + at[0] + grid.cell_height / 2, body[tile] + tall / 2
        _word(
            marks,
            left[tile] - 6.0,
            middle,
            text,
            _EDGE_FONT,
            "right",
            exact=exact,
            place=(1.0, row[tile], _EDGE_FONT, grid.cell_height),
        )


def _every(texts: list[str], room: float) -> int:
    return max(1, int(np.ceil(_length(texts) / room)))


def _length(texts: list[str]) -> float:
    return _EDGE_FONT * CHARACTER * (max(map(len, texts), default=0) + 0.6)


def _edge_texts(grid: Grid, digit: Digit, tiles: Ints, edge: Edge) -> tuple[list[str], list[str]]:
    """The labels of the blocks that a digit of these tiles joins: the range, and its start alone."""
    step, count = grid.steps[digit.dim], grid.counts[digit.dim]
    firsts = (grid.tiles[tiles, digit.dim] // digit.weight * digit.weight * step).tolist()
    pairs = [edge(digit.dim, first, min(first + digit.weight * step, count)) for first in firsts]
    return [range_ for range_, _ in pairs], [start for _, start in pairs]


def _word(
    marks: Marks,
    x: float,
    y: tuple[float, float],
    text: str,
    size: float,
    align: str,
    weight: str = "normal",
    exact: bool = False,
    place: tuple[float, float, float, float] = _ALONE,
) -> None:
    for name, value in (
        ("x", float(x)),
        ("y", float(y[0])),
        ("body", float(y[1])),
        ("exact", float(exact)),
        ("text", text),
        ("size", size),
        ("align", align),
        ("weight", weight),
        *zip(_PLACE, map(float, place), strict=True),
    ):
        marks.outside[name].append(value)

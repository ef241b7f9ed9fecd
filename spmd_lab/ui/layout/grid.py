"""Where the cells of a picture go: any number of dims as rows, columns and panels, neighbors
joined where there are too many.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

WIDTH = 632.0  # of a picture, in the units of its x; the browser stretches it to the width there is
MAX_CELLS = 1024  # drawn one by one
MAX_TILES = 256  # once neighbors have to be joined, so that a tile still takes a label
MAX_LINE = 32  # cells side by side in one panel
TALLEST, LOWEST = 300.0, 16.0  # pixels: cells of an array drawn to scale together, and one
LEAST_FONT, CHARACTER = 8.0, 0.54  # pixels; width of a character over its font size
FEW, FEW_FONT, FEW_WIDE = 64, 12.0, 48.0  # cells that have room: their font, and least width
# pixels: above the header of a panel, above its cells, between panels
CAPTION, HEADER, GAP = 22.0, 16.0, 10.0
Ints = NDArray[np.int64]
Floats = NDArray[np.floating]


@dataclass(frozen=True, slots=True)
class Digit:
    """A part of the number of a tile along a dim: `tile // weight % size`."""

    dim: int
    size: int
    weight: int = 1

    def of(self, tiles: Ints) -> Ints:
        """This part of every tile, [tiles]; `tiles` is [tiles, dims]."""
        return tiles[:, self.dim] // self.weight % self.size


@dataclass(frozen=True, slots=True)
class Grid:
    """A picture of `counts` blocks along each dim, as tiles in rows and columns of panels.

    A tile joins up to `steps[dim]` neighboring blocks along each dim; `tiles`, [tiles, dims],
    numbers it along each. Widths are in units of WIDTH, heights in pixels. `stretch`: how many
    times too tall a cell is for its width, 1.0 where it is to scale, None where no scale is meant.
    """

    counts: tuple[int, ...]
    steps: tuple[int, ...]
    tiles: Ints
    rows: Digit
    columns: Digit
    panels: tuple[Digit, ...]
    panels_across: int
    margin: float
    cell_width: float
    cell_height: float
    stretch: float | None = None

    @property
    def is_to_scale(self) -> bool:
        """Whether cells have the proportions of what they hold."""
        return self.stretch is not None and abs(self.stretch - 1) < 0.05

    @property
    def joined(self) -> bool:
        """Whether a tile joins more than one block."""
        return any(step > 1 for step in self.steps)

    @property
    def panel_of(self) -> Ints:
        """The panel of every tile, [tiles]."""
        panel = np.zeros(len(self.tiles), np.int64)
        for digit in self.panels:
            panel = panel * digit.size + digit.of(self.tiles)
        return panel

    @property
    def height(self) -> float:
        """Of the picture, in pixels."""
        return (
            -(-math.prod(digit.size for digit in self.panels) // self.panels_across) * self._pitch
        )

    @property
    def body(self) -> float:
        """Of `height`, what goes with the cells' own heights."""
        panels = math.prod(digit.size for digit in self.panels)
        return -(-panels // self.panels_across) * self.rows.size * self.cell_height

    def body_above(self) -> Floats:
        """Of the top of every tile, what goes with the cells' own heights, [tiles]."""
        down = self.panel_of // self.panels_across
        return (down * self.rows.size + self.rows.of(self.tiles)) * self.cell_height

    @property
    def _head(self) -> float:
        return HEADER + (CAPTION if self.panels else 0.0)

    @property
    def _pitch(self) -> float:
        return self.rows.size * self.cell_height + self._head

    def panel_corners(self, panel: Ints) -> tuple[Floats, Floats]:
        """Upper left corner of the cells of each panel."""
        across, down = panel % self.panels_across, panel // self.panels_across
        return self.margin + across * (
            self.columns.size * self.cell_width + GAP
        ), self._head + down * self._pitch

    def corners(self) -> tuple[Floats, Floats]:
        """Upper left corner of every tile."""
        left, top = self.panel_corners(self.panel_of)
        return left + self.columns.of(self.tiles) * self.cell_width, top + self.rows.of(
            self.tiles
        ) * self.cell_height

    def block_ranges(self, dim: int) -> tuple[Ints, Ints]:
        """First block, and the one after the last, that every tile joins along a dim."""
        first = self.tiles[:, dim] * self.steps[dim]
        return first, np.minimum(first + self.steps[dim], self.counts[dim])


def steps_for(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Blocks to join along each dim where there are too many to draw: the longest dim is halved
    until they fit.

    >>> steps_for((64, 64)), steps_for((32, 32))
    ((4, 4), (1, 1))
    """
    steps = [1] * len(counts)
    tiles = list(counts)
    while math.prod(tiles) > MAX_TILES and math.prod(counts) > MAX_CELLS:
        longest = max(range(len(tiles)), key=tiles.__getitem__)
        steps[longest] *= 2
        tiles[longest] = -(-counts[longest] // steps[longest])
    return tuple(steps)


def arrange(
    counts: tuple[int, ...], margin: float, letters: int, shard: tuple[int, ...] | None = None
) -> Grid:
    """The picture of `counts` blocks along each dim (rank at least 1), with `margin` left free for
    row labels and cells for `letters`.

    The last two dims that are sharded make columns and rows, the others panels; a line too long for
    its labels goes on in the next. Cells of a plane have the proportions of a `shard`, as far as
    that can be read.
    """
    steps = steps_for(counts)
    sizes = tuple(-(-count // step) for count, step in zip(counts, steps, strict=True))
    least = 2.0 + LEAST_FONT * CHARACTER * letters
    longest = min(max(int((WIDTH - margin) / least), 8), MAX_LINE)
    rows, columns, panels = _digits(sizes, longest, shard or sizes)
    tiles = np.indices(sizes).reshape(len(sizes), math.prod(sizes)).T
    panel_count = math.prod(digit.size for digit in panels)
    few = rows.size * columns.size * panel_count <= FEW
    across, cell_width = _panels_across(
        columns.size, panel_count, margin, max(least, 34.0) if few else least
    )
    lines, stretch = rows.size * panel_count / across, None
    cell_height = min(max(min(0.62 * cell_width, 340.0 / lines), 16.0), 58.0)
    if shard is not None and rows.dim != columns.dim:
        ratio = shard[rows.dim] * steps[rows.dim] / (shard[columns.dim] * steps[columns.dim])
        narrowest = min(_readable(letters), cell_width) if few else least
        tallest = max(TALLEST / lines, LOWEST)
        cell_width, cell_height = _scaled(ratio, narrowest, cell_width, tallest)
        stretch = cell_height / (ratio * cell_width)
    cell = across, margin, cell_width, cell_height, stretch
    return Grid(counts, steps, tiles, rows, columns, panels, *cell)


def _readable(letters: int) -> float:
    """Returns the least width of one of few cells, in whose label letters have a font to read."""
    return max(2.0 + FEW_FONT * CHARACTER * letters, FEW_WIDE)


def _scaled(ratio: float, narrowest: float, widest: float, tallest: float) -> tuple[float, float]:
    """Width and height of a cell `ratio` times as tall as wide: the largest that has room, or the
    nearest to these proportions in which its label can be read.
    """
    width = min(max(min(widest, tallest / ratio), narrowest), widest)
    return width, min(max(ratio * width, LOWEST), tallest)


def _digits(
    sizes: tuple[int, ...], longest: int, shard: tuple[int, ...]
) -> tuple[Digit, Digit, tuple[Digit, ...]]:
    shown = [dim for dim, size in enumerate(sizes) if size > 1] or [len(sizes) - 1]
    # one dim: a line, that goes on in the next
    if len(shown) == 1 and (len(sizes) == 1 or sizes[shown[0]] > 8):
        outer, inner = _lines(shown[0], sizes[shown[0]], longest)
        return outer, inner, ()
    unsharded = [dim for dim, size in enumerate(sizes) if size == 1 and dim not in shown]
    if len(shown) == 1:  # a plane shows more than a line, even where one of its dims is not sharded
        shown = sorted([*shown, max(unsharded, key=lambda dim: (shard[dim], dim))])
    outer_columns, columns = _lines(shown[-1], sizes[shown[-1]], longest)
    outer_rows, rows = _lines(shown[-2], sizes[shown[-2]], MAX_LINE)
    return (
        rows,
        columns,
        (
            *(Digit(dim, sizes[dim]) for dim in shown[:-2]),
            *(digit for digit in (outer_rows, outer_columns) if digit.size > 1),
        ),
    )


def _lines(dim: int, size: int, longest: int) -> tuple[Digit, Digit]:
    """A dim as (line, place in the line), of lines that are at most `longest`, and all full where
    that can be.
    """
    if size <= longest:
        return Digit(dim, 1, size), Digit(dim, size)
    length = next((length for length in range(longest, 7, -1) if size % length == 0), longest)
    return Digit(dim, -(-size // length), length), Digit(dim, length)


def _panels_across(columns: int, panels: int, margin: float, least: float) -> tuple[int, float]:
    best = 1, (WIDTH - margin) / columns
    for across in range(2, min(panels, 16) + 1):
        width = (WIDTH - margin - (across - 1) * GAP) / (across * columns)
        if panels % across == 0 and width >= least:
            best = across, width
    return best

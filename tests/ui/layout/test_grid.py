"""The geometry of a layout's pictures: every block is in exactly one tile, and no tile lies on
another.
"""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from spmd_lab.ui.layout.grid import (
    CHARACTER,
    FEW_FONT,
    LEAST_FONT,
    MAX_CELLS,
    MAX_LINE,
    MAX_TILES,
    WIDTH,
    arrange,
)

SIZES = st.sampled_from([1, 2, 3, 4, 5, 7, 8, 16, 31, 33, 37, 64, 100])
COUNTS = st.lists(SIZES, min_size=1, max_size=6).filter(lambda counts: math.prod(counts) <= 100_000)
LETTERS = st.integers(1, 9)


def covered(grid):
    """How often each block is drawn, shaped as the counts."""
    drawn = np.zeros(grid.counts, int)
    ranges = [grid.block_ranges(dim) for dim in range(len(grid.counts))]
    for tile in range(len(grid.tiles)):
        drawn[tuple(slice(first[tile], stop[tile]) for first, stop in ranges)] += 1
    return drawn


@given(COUNTS, LETTERS)
def test_every_block_is_drawn_once(counts, letters):
    assert np.all(covered(arrange(tuple(counts), 40.0, letters)) == 1)


@given(COUNTS, LETTERS)
def test_no_tile_lies_on_another_or_outside_the_picture(counts, letters):
    grid = arrange(tuple(counts), 40.0, letters)
    left, top = grid.corners()
    assert left.min() >= 40.0 and (left + grid.cell_width).max() <= WIDTH + 1e-6
    assert top.min() > 0 and (top + grid.cell_height).max() <= grid.height + 1e-6
    inside = np.stack([left + grid.cell_width / 2, top + grid.cell_height / 2])
    for number, (x, y) in enumerate(inside.T):
        apart = (np.abs(inside[0] - x) > grid.cell_width - 1e-6) | (
            np.abs(inside[1] - y) > grid.cell_height - 1e-6
        )
        apart[number] = True
        assert apart.all()


@given(COUNTS, LETTERS)
def test_neighbours_are_joined_only_where_there_are_too_many(counts, letters):
    grid = arrange(tuple(counts), 40.0, letters)
    assert grid.joined == (math.prod(counts) > MAX_CELLS)
    assert len(grid.tiles) <= (MAX_TILES if grid.joined else MAX_CELLS)


@pytest.mark.parametrize(
    ("counts", "rows", "columns", "panels"),
    [
        ((8,), 1, 8, 1),  # a strip
        ((2, 4), 2, 4, 1),
        ((1, 4), 1, 4, 1),  # the whole dim is a side of the plane
        ((4, 1), 4, 1, 1),
        ((2, 3, 4), 3, 4, 2),  # the first dim makes panels
        ((2, 1, 4), 2, 4, 1),  # a dim that is not cut makes none
        ((2, 2, 4, 4), 4, 4, 4),
        ((256,), 8, MAX_LINE, 1),  # a strip goes on in the next line
        ((8, 64), 8, MAX_LINE, 2),  # a long dim goes on in the next panel
    ],
)
def test_rows_columns_and_panels(counts, rows, columns, panels):
    grid = arrange(counts, 40.0, 3)
    assert (grid.rows.size, grid.columns.size, math.prod(digit.size for digit in grid.panels)) == (
        rows,
        columns,
        panels,
    )


def test_rows_and_columns_run_as_the_dims_do():
    grid = arrange((2, 3), 40.0, 1)
    left, top = grid.corners()
    assert grid.tiles.tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert left[0] < left[1] < left[2] and left[0] == left[3]
    assert top[0] == top[2] < top[3]


def test_lines_are_short_enough_for_long_labels():
    narrow = arrange((64,), 40.0, 9)
    assert narrow.columns.size <= 16 and narrow.cell_width >= 9 * LEAST_FONT * CHARACTER


@pytest.mark.parametrize(
    ("counts", "shard"),
    [((4, 1, 1), (1024, 1000, 3)), ((4, 1), (1024, 3)), ((8, 1), (4096, 1)), ((1, 4), (3, 1024))],
)
def test_few_blocks_are_wide_enough_for_their_labels(counts, shard):
    grid = arrange(counts, 40.0, 4, shard)
    assert (grid.cell_width - 2) / (CHARACTER * 4) >= FEW_FONT
    assert grid.columns.dim != 2, "of the dims that are not sharded the longest is drawn"

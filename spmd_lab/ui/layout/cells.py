"""What the tiles of a layout's picture show: colors, labels, and the words on hover."""

import numpy as np

from spmd_core.base import bytes_text, count_text
from spmd_core.experiment import Layout
from spmd_lab.ui.charts.colors import of_shards
from spmd_lab.ui.charts.layout_words import (
    coordinate_texts,
    group_texts,
    index_texts,
    short_group_texts,
)
from spmd_lab.ui.layout.grid import Grid, Ints
from spmd_lab.ui.layout.marks import OUTLINED, Columns


def array_cells(
    placed: Layout, grid: Grid, dtype: str, linked: bool
) -> tuple[Columns, list[str], list[str]]:
    """Columns of the tiles of the array, their labels and details."""
    rank = len(placed.shape)
    shard = np.asarray(placed.shard_shape, np.int64)
    ranges = [grid.block_ranges(dim) for dim in range(rank)]
    starts = (
        np.stack([first for first, _ in ranges], -1) * shard if rank else np.zeros((1, 0), np.int64)
    )
    stops = np.stack([stop for _, stop in ranges], -1) * shard if rank else starts
    holds = index_texts(starts, stops)
    if grid.joined:
        return _joined_cells(placed, grid, placed.blocks, holds, dtype)
    first = placed.groups[:, 0]
    mesh = coordinate_texts(placed, first, placed.replicated_axes)
    columns = _on_hover(
        placed,
        first,
        first if linked else None,
        group_texts(placed.named_groups),
        mesh,
        holds,
        dtype,
        [
            f"on {count_text(placed.replication)} devices"
            if placed.replication > 1
            else "on no other device"
        ]
        * len(first),
    )
    return columns, short_group_texts(placed.named_groups), []


def mesh_cells(
    placed: Layout, grid: Grid, dtype: str, linked: bool
) -> tuple[Columns, list[str], list[str]]:
    """Columns of the tiles of the mesh, their labels and details."""
    if grid.joined:
        tile = _tile_of(grid, placed.coordinates)
        lowest = np.full((len(grid.tiles), len(placed.shape)), np.iinfo(np.int64).max)
        highest = np.zeros_like(lowest)
        np.minimum.at(lowest, tile, placed.starts)
        np.maximum.at(highest, tile, placed.stops)
        return _joined_cells(
            placed,
            grid,
            placed.coordinates,
            [f"within {text}" for text in index_texts(lowest, highest)],
            dtype,
        )
    same, first = group_texts(placed.named_groups), placed.groups[placed.shard_of, 0]
    holds, labels = (
        index_texts(placed.starts, placed.stops),
        list(map(str, placed.numbers.tolist())),
    )
    alone = placed.replication == 1
    columns = _on_hover(
        placed,
        first,
        first if linked else None,
        labels,
        _places(placed),
        holds,
        dtype,
        [
            "on no other device" if alone else f"on {same[shard]}"
            for shard in placed.shard_of.tolist()
        ],
    )
    return columns, labels, [text[1:-1] for text in holds]


def outlined(
    cells: tuple[Columns, list[str], list[str]], grid: Grid, blocks: Ints, holders: Ints | None
) -> tuple[Columns, list[str], list[str]]:
    """Outline the tiles that have a block of the `holders`, if any; `blocks`: of each device."""
    if holders is None:
        return cells
    columns, labels, details = cells
    has_holder = np.isin(np.arange(len(grid.tiles)), _tile_of(grid, blocks)[holders])
    return columns | {OUTLINED: has_holder.tolist()}, labels, details


def _places(placed: Layout) -> list[str]:
    places = coordinate_texts(placed, np.arange(placed.device_count))
    if placed.hosts is None:
        return places
    return [f"{text}, host {host}" for text, host in zip(places, placed.hosts, strict=True)]


def _tile_of(grid: Grid, blocks: Ints) -> Ints:
    sizes = grid.tiles.max(axis=0) + 1
    return np.asarray(
        np.ravel_multi_index(tuple((blocks // np.asarray(grid.steps)).T), tuple(sizes.tolist()))
    )


def _joined_cells(
    placed: Layout, grid: Grid, blocks: Ints, holds: list[str], dtype: str
) -> tuple[Columns, list[str], list[str]]:
    tile, every = _tile_of(grid, blocks), np.arange(placed.device_count)
    count = np.bincount(tile, minlength=len(grid.tiles))
    first, last = np.full(len(grid.tiles), placed.device_count), np.zeros(len(grid.tiles), np.int64)
    np.minimum.at(first, tile, every)
    np.maximum.at(last, tile, every)
    rows = list(zip(count.tolist(), first.tolist(), last.tolist(), strict=True))
    columns = _on_hover(
        placed,
        first,
        None,
        [f"{count_text(many)} devices, {low} to {high}" for many, low, high in rows],
        ["–"] * len(rows),
        holds,
        dtype,
        [
            f"each shard on {count_text(placed.replication)}"
            if placed.replication > 1
            else "on no other device"
        ]
        * len(rows),
    )
    return columns, [f"{low}+" for _, low, _ in rows], []


def _on_hover(
    placed: Layout,
    first: Ints,
    key: Ints | None,
    devices: list[str],
    mesh: list[str],
    holds: list[str],
    dtype: str,
    same: list[str],
) -> Columns:
    """The columns that hover and highlight read. `first` is the lowest device with a tile's data,
    and gives its color.
    """
    return {
        "color": of_shards(first, placed.device_count),
        "key": list(range(-len(first), 0)) if key is None else key.tolist(),
        "devices": devices,
        "mesh": mesh,
        "holds": holds,
        "bytes": [bytes_text(placed.shard_bytes(dtype))] * len(first),
        "same": same,
    }

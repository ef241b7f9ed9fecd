"""What the tiles of a layout's picture show and tell: colors, labels, and the words on hover."""

import numpy as np

from spmd_core.base import bytes_text, count_text
from spmd_core.experiment import Layout
from spmd_core.words import coordinate_texts, group_texts, index_texts, short_group_texts
from ui.layout.colours import colours
from ui.layout.grid import Grid, Ints
from ui.layout.marks import Columns


def array_cells(
    found: Layout, grid: Grid, dtype: str, linked: bool
) -> tuple[Columns, list[str], list[str]]:
    """What the tiles of the array tell, their labels and details."""
    rank = len(found.shape)
    shard = np.asarray(found.shard_shape, np.int64)
    ranges = [grid.block_ranges(dim) for dim in range(rank)]
    starts = (
        np.stack([first for first, _ in ranges], -1) * shard if rank else np.zeros((1, 0), np.int64)
    )
    stops = np.stack([stop for _, stop in ranges], -1) * shard if rank else starts
    holds = index_texts(starts, stops)
    if grid.joined:
        return _joined_cells(found, grid, found.blocks, holds, dtype)
    first = found.groups[:, 0]
    mesh = coordinate_texts(found, first, found.replicated_axes)
    told = _on_hover(
        found,
        first,
        first if linked else None,
        group_texts(found.named_groups),
        mesh,
        holds,
        dtype,
        [
            f"on {count_text(found.replication)} devices"
            if found.replication > 1
            else "on no other device"
        ]
        * len(first),
    )
    return told, short_group_texts(found.named_groups), []


def mesh_cells(
    found: Layout, grid: Grid, dtype: str, linked: bool
) -> tuple[Columns, list[str], list[str]]:
    """What the tiles of the mesh tell, their labels and details."""
    if grid.joined:
        tile = _tile_of(grid, found.coordinates)
        lowest = np.full((len(grid.tiles), len(found.shape)), np.iinfo(np.int64).max)
        highest = np.zeros_like(lowest)
        np.minimum.at(lowest, tile, found.starts)
        np.maximum.at(highest, tile, found.stops)
        return _joined_cells(
            found,
            grid,
            found.coordinates,
            [f"within {text}" for text in index_texts(lowest, highest)],
            dtype,
        )
    devices = np.arange(found.device_count)
    same, first = group_texts(found.named_groups), found.groups[found.shard_of, 0]
    holds, labels = index_texts(found.starts, found.stops), list(map(str, found.numbers.tolist()))
    alone = found.replication == 1
    told = _on_hover(
        found,
        first,
        first if linked else None,
        labels,
        coordinate_texts(found, devices),
        holds,
        dtype,
        [
            "on no other device" if alone else f"on {same[shard]}"
            for shard in found.shard_of.tolist()
        ],
    )
    return told, labels, [text[1:-1] for text in holds]


def _tile_of(grid: Grid, blocks: Ints) -> Ints:
    """The tile of every device, given its block along each dim, [devices, dims]."""
    sizes = grid.tiles.max(axis=0) + 1
    return np.asarray(
        np.ravel_multi_index(tuple((blocks // np.asarray(grid.steps)).T), tuple(sizes.tolist()))
    )


def _joined_cells(
    found: Layout, grid: Grid, blocks: Ints, holds: list[str], dtype: str
) -> tuple[Columns, list[str], list[str]]:
    """What tiles tell that each join several shards or devices."""
    tile, every = _tile_of(grid, blocks), np.arange(found.device_count)
    count = np.bincount(tile, minlength=len(grid.tiles))
    first, last = np.full(len(grid.tiles), found.device_count), np.zeros(len(grid.tiles), np.int64)
    np.minimum.at(first, tile, every)
    np.maximum.at(last, tile, every)
    rows = list(zip(count.tolist(), first.tolist(), last.tolist(), strict=True))
    told = _on_hover(
        found,
        first,
        None,
        [f"{count_text(many)} devices, {low} to {high}" for many, low, high in rows],
        ["–"] * len(rows),
        holds,
        dtype,
        [
            f"each shard on {count_text(found.replication)}"
            if found.replication > 1
            else "on no other device"
        ]
        * len(rows),
    )
    return told, [f"{low}+" for _, low, _ in rows], []


def _on_hover(
    found: Layout,
    first: Ints,
    key: Ints | None,
    devices: list[str],
    mesh: list[str],
    holds: list[str],
    dtype: str,
    same: list[str],
) -> Columns:
    """The columns that hover and highlight read. `first` is the lowest device with a tile's data,
    and gives its colour.
    """
    ranked, number = np.unique(first, return_inverse=True)
    return {
        "color": colours(number, len(ranked)),
        "key": list(range(-len(first), 0)) if key is None else key.tolist(),
        "devices": devices,
        "mesh": mesh,
        "holds": holds,
        "bytes": [bytes_text(found.shard_bytes(dtype))] * len(first),
        "same": same,
    }

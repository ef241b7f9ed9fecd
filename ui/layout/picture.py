"""A layout as a picture: the array cut into shards above the mesh of devices that hold them, in the
colours of who holds what.

Charts are Vega-Lite as plain values: validating an Altair chart of two pictures costs more than a
whole rerun may.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from spmd_core.base import bytes_text, count_text, mesh_text
from spmd_core.experiment import Layout, shape_text
from spmd_core.words import (
    compact,
    coordinate_texts,
    dim_text,
    group_texts,
    index_texts,
    layout_headline,
    not_to_scale,
    range_texts,
    sharing_text,
    short_group_texts,
)
from ui.layout.colours import colours
from ui.layout.grid import WIDTH, Grid, Ints, arrange
from ui.layout.marks import Columns, Edge, Marks, add_cells, add_edges, add_title
from ui.markdown import plain

TABLE_ROWS = 4096
_BETWEEN = 18.0  # pixels between two pictures
_INK = "#15181d"  # of labels in cells: every cell is light, in both themes
_SPOKEN = (
    "'device ' + datum.devices + ', mesh ' + datum.mesh + ', holds ' + datum.holds + ', ' + "
    "datum.bytes + ', same data ' + datum.same"
)
# pixels of an x unit: of a picture to scale in a narrow window, and of any mark
_SHRUNK = f"min(1, width / {WIDTH:g})"
_WIDER = f"(datum.exact ? {_SHRUNK} : width / {WIDTH:g})"
_LOWER = f"(datum.exact ? {_SHRUNK} : 1)"
# around them: dark on a light page and light on a dark one, whichever it is
_WORDS = {"aria": False, "color": "#ccd2da", "blend": "difference"}


def picture(found: Layout, dtype: str) -> dict[str, Any]:
    """The Vega-Lite chart of a layout: array above, mesh below; pointing at a shard or a device
    lights all that hold the same.
    """
    marks = Marks()
    array, mesh = array_grid(found), mesh_grid(found)
    linked = not (array.joined or mesh.joined)
    scale = ", to scale" if array.is_to_scale else ""
    top = add_title(
        marks,
        0.0,
        f"Array {shape_text(found.shape)}{scale}",
        _roles(array, lambda dim: dim_text(found, dim)),
    )
    add_edges(marks, array, (top, 0.0), _array_edge(found), lambda dim: f"d{dim} ")
    add_cells(marks, array, (top, 0.0), *_array_cells(found, array, dtype, linked))
    top, above = top + array.height + _BETWEEN, 0.0 if array.stretch is None else array.body
    top += add_title(
        marks,
        top,
        "Mesh " + ", ".join(f"{name} = {size}" for name, size in found.mesh),
        _roles(mesh, lambda axis: found.mesh[axis][0]),
        above,
    )
    add_edges(marks, mesh, (top, above), _mesh_edge(found), lambda _: "")
    add_cells(marks, mesh, (top, above), *_mesh_cells(found, mesh, dtype, linked))
    return _vega(marks, top + mesh.height + 4.0)


def array_grid(found: Layout) -> Grid:
    """Where the shards of the array are drawn; a scalar is one cell."""
    edge = _array_edge(found)
    letters = max(map(len, short_group_texts(found.named_groups[-1:])))
    return arrange(
        found.parts or (1,),
        _margin([edge(dim, parts - 1, parts)[0] for dim, parts in enumerate(found.parts)]),
        letters,
        found.shard_shape or None,
    )


def mesh_grid(found: Layout) -> Grid:
    """Where the devices of the mesh are drawn."""
    edge = _mesh_edge(found)
    margin = _margin([edge(axis, size - 1, size)[0] for axis, (_, size) in enumerate(found.mesh)])
    return arrange(tuple(size for _, size in found.mesh), margin, len(str(found.device_count - 1)))


def _margin(labels: list[str]) -> float:
    return min(12.0 + 5.8 * max(map(len, labels), default=0), 140.0)


def alt_text(found: Layout, dtype: str) -> str:
    """What the picture shows, in words, for who cannot see it."""
    mesh = mesh_text(found.mesh)
    cuts = "; ".join(dim_text(found, dim) for dim in range(len(found.shape))) or "a scalar"
    same = (
        f"the same is on devices {group_texts(found.named_groups[:1])[0]}"
        if found.replication > 1
        else "no other device holds that"
    )
    shards = f"{count_text(found.shard_count)} {'shard' if found.shard_count == 1 else 'shards'}"
    return (
        f"{layout_headline(found, dtype)}. The array is drawn as {shards} ({cuts}), the mesh "
        f"{mesh} as {count_text(found.device_count)} devices "
        f"in the color of what they hold. "
        f"Device 0 holds {index_texts(found.starts[:1], found.stops[:1])[0]}; {same}."
    )


def joined_note(found: Layout) -> str | None:
    """What one tile stands for where the picture joins neighbours; None where every shard and
    device is drawn.
    """
    parts = []
    for grid, name, noun in (
        (array_grid(found), "array", "shards"),
        (mesh_grid(found), "mesh", "devices"),
    ):
        if grid.joined:
            parts.append(
                f"a tile of the {name} stands for {' × '.join(map(str, grid.steps))} {noun}"
            )
    return f"Too many to draw one by one: {', '.join(parts)}." if parts else None


def notes(found: Layout) -> str:
    """The sentences below the picture, a line each, as markdown."""
    sentences = (sharing_text(found), joined_note(found), scale_note(found))
    return "  \n".join(plain(sentence) for sentence in sentences if sentence)


def scale_note(found: Layout) -> str | None:
    """How far the array's proportions are from the picture's; None where they are the same, or
    there is but one dim.
    """
    grid = array_grid(found)
    if grid.stretch is None or grid.is_to_scale:
        return None
    return not_to_scale(f"d{grid.rows.dim}", grid.stretch)


def table(found: Layout, dtype: str) -> pa.Table:
    """The numbers of the picture, one row a device, the first 4,096: coordinates, slice of every
    dim, bytes, who holds the same.
    """
    count = min(found.device_count, TABLE_ROWS)
    shards, place = np.unique(found.shard_of[:count], return_inverse=True)
    same = group_texts(found.named_groups[shards])
    columns: dict[str, Any] = {"device": found.numbers[:count]}
    columns |= {name: found.coordinates[:count, axis] for axis, (name, _) in enumerate(found.mesh)}
    columns |= {
        f"[d{dim}]": range_texts(found.starts[:count, dim], found.stops[:count, dim])
        for dim in range(len(found.shape))
    }
    return pa.table(
        columns
        | {
            "bytes": [found.shard_bytes(dtype)] * count,
            "held by devices": [same[shard] for shard in place.tolist()],
        }
    )


def _array_edge(found: Layout) -> Edge:
    sizes = found.shard_shape

    def edge(dim: int, first: int, stop: int) -> tuple[str, str]:
        if not sizes:
            return "", ""
        start = compact(first * sizes[dim])
        return f"{start}:{compact(stop * sizes[dim])}", start

    return edge


def _mesh_edge(found: Layout) -> Edge:
    def edge(axis: int, first: int, stop: int) -> tuple[str, str]:
        name = found.mesh[axis][0]
        return f"{name}={first}" if stop - first == 1 else f"{name}={first}–{stop - 1}", str(first)

    return edge


def _roles(grid: Grid, name: Callable[[int], str]) -> str:
    """What rows, columns and panels are, e.g. `rows d0 over x, columns d1 over y`."""
    if grid.rows.dim == grid.columns.dim:
        return f"along {name(grid.rows.dim)}" + (", line by line" if grid.rows.size > 1 else "")
    panels = sorted({digit.dim for digit in grid.panels} - {grid.rows.dim, grid.columns.dim})
    words = [
        f"rows {name(grid.rows.dim)}",
        f"columns {name(grid.columns.dim)}",
        *([f"panels {' and '.join(map(name, panels))}"] if panels else []),
    ]
    return ", ".join(words)


def _array_cells(
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
    told = _told(
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


def _mesh_cells(
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
    told = _told(
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
    told = _told(
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


def _told(
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


def _vega(marks: Marks, height: float) -> dict[str, Any]:
    """One layered view, so that it follows the width there is, and one selection covers both
    pictures.
    """
    domain = {"nice": False, "zero": False}
    across = {"type": "quantitative", "scale": {"domain": [0, WIDTH], **domain}, "axis": None}
    down = {
        "type": "quantitative",
        "scale": {"domain": [0, height], "reverse": True, **domain},
        "axis": None,
    }
    place = {"x": {"field": "xa"} | across, "y": {"field": "ya"} | down}
    labels = place | {"text": {"field": "text"}}
    words = labels | {"size": {"field": "size", "type": "quantitative", "scale": None}}
    hover = [
        {"field": field, "title": title}
        for field, title in (
            ("devices", "device"),
            ("mesh", "mesh"),
            ("holds", "holds"),
            ("bytes", "bytes on each"),
            ("same", "same data"),
        )
    ]
    text = {"type": "text", "baseline": "middle", "tooltip": None}
    # labels grow and shrink with the cells, and vanish before they cannot be read
    size = f"min(datum.size * {_WIDER}, datum.most, datum.room * {_LOWER})"
    label = text | {
        "color": _INK,
        "aria": False,
        "fontSize": {"expr": size},
        "opacity": {"expr": f"{size} < 7 ? 0 : 1"},
    }
    apart = f"max(1, ceil(datum.need / datum.room / (datum.down ? {_LOWER} : {_WIDER})))"
    word = (
        text
        | _WORDS
        | {
            "align": {"expr": "datum.align"},
            "fontWeight": {"expr": "datum.weight"},
            "opacity": {"expr": f"datum.index % {apart} == 0 ? 1 : 0"},
        }
    )
    lit = {"condition": {"param": "same", "empty": True, "value": 1}, "value": 0.22}
    fill = {"field": "color", "type": "nominal", "scale": None}
    return {
        "height": height,
        "padding": {"left": 0, "top": 2, "right": 0, "bottom": 2},
        "config": {"view": {"stroke": None}},
        "datasets": {
            "cells": pa.table(marks.cells),
            "inside": pa.table(marks.inside),
            "outside": pa.table(marks.outside),
        },
        "layer": [
            {
                "data": {"name": "cells"},
                "transform": _moved("", "2"),
                "mark": {"type": "rect", "cornerRadius": 2, "description": {"expr": _SPOKEN}},
                "params": [
                    {
                        "name": "same",
                        "select": {
                            "type": "point",
                            "fields": ["key"],
                            "on": "pointerover",
                            "clear": "pointerout",
                        },
                    }
                ],
                "encoding": place
                | {
                    "x2": {"field": "xa2"},
                    "y2": {"field": "ya2"},
                    "color": fill,
                    "tooltip": hover,
                    "opacity": lit,
                },
            },
            {
                "data": {"name": "inside"},
                "mark": label,
                "encoding": labels,
                "transform": _moved(""),
            },
            {"data": {"name": "outside"}, "mark": word, "encoding": words, "transform": _moved("")},
        ],
    }


def _moved(*ends: str) -> list[dict[str, str]]:
    """Places of marks in the width that there is, by the rule of `Marks`, under names of their own:
    Vega works them out anew from x and y whenever the width changes.
    """
    return [
        made
        for end in ends
        for made in (
            {
                "as": f"xa{end}",
                "calculate": f"datum.exact ? datum.x{end} * {_WIDER} * {WIDTH:g} / width"
                f" : datum.x{end}",
            },
            {"as": f"ya{end}", "calculate": f"datum.y{end} - datum.body{end} * (1 - {_SHRUNK})"},
        )
    ]

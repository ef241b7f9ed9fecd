"""A layout as a picture: the sharded array above the mesh of devices that hold the shards, in
the colors of who holds what.
"""

import re
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import streamlit as st

from spmd_core.base import count_text, mesh_text
from spmd_core.experiment import Layout, type_text
from spmd_core.terms import layout_headline
from spmd_lab.ui.charts.base import Spec
from spmd_lab.ui.charts.layout_words import (
    compact,
    dim_text,
    group_texts,
    hosts_text,
    index_texts,
    not_to_scale,
    range_texts,
    sharing_text,
    short_group_texts,
)
from spmd_lab.ui.layout.cells import array_cells, mesh_cells, outlined
from spmd_lab.ui.layout.domains import Domains
from spmd_lab.ui.layout.drawing import vega
from spmd_lab.ui.layout.grid import WIDTH, Grid, arrange
from spmd_lab.ui.layout.marks import Edge, Marks, add_cells, add_edges, add_title
from spmd_lab.ui.markdown import plain

TABLE_ROWS = 4096
_BETWEEN = 18.0  # pixels between two pictures


def draw(
    placed: Layout,
    dtype: str,
    key: str,
    domains: Domains | None = None,
    element: Sequence[int] | None = None,
) -> None:
    """Draws a layout, without the void that cells leave where they shrink with their scale; with
    outlines of what holds an `element`.
    """
    with st.container(key=f"shrinks-{key}"):
        spec, alt = picture(placed, dtype, domains, element), alt_text(placed, dtype)
        st.vega_lite_chart(spec, alt=alt, width="stretch", key=key)
    array, wide = array_grid(placed), WIDTH - _margin(placed)
    shrinks = 0.0 if array.stretch is None else array.body / wide
    name = re.sub("[^A-Za-z0-9]", "-", key)
    st.html(
        f"<style>.st-key-shrinks-{name} {{ margin-bottom: min(0px, (100% - {WIDTH}px) * {shrinks:.3f}); }}</style>"
    )


def picture(
    placed: Layout,
    dtype: str,
    domains: Domains | None = None,
    element: Sequence[int] | None = None,
) -> Spec:
    """The Vega-Lite chart of a layout: array above, mesh below, and of GPUs their domains; pointing
    at a shard or a device lights all that hold the same. The shard of an `element` and the devices
    that hold it have an outline.
    """
    marks = Marks()
    holders = None if element is None else placed.holders(element)
    array, mesh = array_grid(placed), mesh_grid(placed)
    linked = not (array.joined or mesh.joined)
    top = _add_array(marks, placed, array, dtype)
    cells = array_cells(placed, array, dtype, linked)
    add_cells(marks, array, (top, 0.0), *outlined(cells, array, placed.blocks, holders))
    top, above = top + array.height + _BETWEEN, 0.0 if array.stretch is None else array.body
    top += add_title(
        marks,
        top,
        "Mesh " + ", ".join(f"{name} = {size}" for name, size in placed.mesh),
        _roles(mesh, lambda axis: placed.mesh[axis][0]),
        above,
    )
    add_edges(marks, mesh, (top, above), _mesh_edge(placed), lambda _: "")
    cells = mesh_cells(placed, mesh, dtype, linked)
    add_cells(marks, mesh, (top, above), *outlined(cells, mesh, placed.coordinates, holders))
    top += mesh.height
    if domains is not None:
        top += _BETWEEN
        top += add_title(marks, top, domains.title, "", above)
        add_edges(marks, domains.grid, (top, above), domains.edge, lambda _: "")
        add_cells(marks, domains.grid, (top, above), *domains.cells(placed, dtype), [])
        top += domains.grid.height
    return vega(marks, top + 4.0, _margin(placed))


def _add_array(marks: Marks, placed: Layout, array: Grid, dtype: str) -> float:
    """Append the words around the array; returns the pixels above its edges."""
    scale = ", to scale" if array.is_to_scale else ""
    top = add_title(
        marks,
        0.0,
        f"Array {type_text(dtype, placed.shape, placed.spec)}{scale}",
        _roles(array, lambda dim: dim_text(placed, dim))
        + _undrawn(placed, array)
        + "; numbers are devices" * (not array.joined),
    )
    add_edges(marks, array, (top, 0.0), _array_edge(placed), lambda dim: f"{placed.dim_name(dim)} ")
    return top


def array_grid(placed: Layout) -> Grid:
    """Where the shards of the array are drawn; a scalar is one cell."""
    letters = max(map(len, short_group_texts(placed.named_groups[-1:])))
    return arrange(placed.parts or (1,), _margin(placed), letters, placed.shard_shape or None)


def mesh_grid(placed: Layout) -> Grid:
    """Where the devices of the mesh are drawn."""
    sizes = tuple(size for _, size in placed.mesh)
    return arrange(sizes, _margin(placed), len(str(placed.device_count - 1)))


def _margin(placed: Layout) -> float:
    array, mesh, sizes = _array_edge(placed), _mesh_edge(placed), [size for _, size in placed.mesh]
    labels = [array(dim, parts - 1, parts)[0] for dim, parts in enumerate(placed.parts)]
    labels += [mesh(axis, size - 1, size)[0] for axis, size in enumerate(sizes)]
    return min(12.0 + 5.8 * max(map(len, labels), default=0), 140.0)


def alt_text(placed: Layout, dtype: str) -> str:
    """What the picture shows, in words, for who cannot see it."""
    mesh = mesh_text(placed.mesh)
    dims = "; ".join(dim_text(placed, dim) for dim in range(len(placed.shape))) or "a scalar"
    same = (
        f"the same is on devices {group_texts(placed.named_groups[:1])[0]}"
        if placed.replication > 1
        else "no other device holds that"
    )
    shards = f"{count_text(placed.shard_count)} {'shard' if placed.shard_count == 1 else 'shards'}"
    return (
        f"{layout_headline(placed, dtype)}. The array is drawn as {shards} ({dims}), the mesh "
        f"{mesh} as {count_text(placed.device_count)} devices "
        f"in the color of what they hold. "
        f"Device 0 holds {index_texts(placed.starts[:1], placed.stops[:1])[0]}; {same}."
    )


def joined_note(placed: Layout) -> str | None:
    """How many blocks a tile is where the picture joins neighbors; None where every shard and
    device is drawn.
    """
    parts = []
    for grid, name, noun in (
        (array_grid(placed), "array", "shards"),
        (mesh_grid(placed), "mesh", "devices"),
    ):
        if grid.joined:
            parts.append(
                f"a tile of the {name} stands for {' × '.join(map(str, grid.steps))} {noun}"
            )
    return f"Too many to draw one by one: {', '.join(parts)}." if parts else None


def notes(placed: Layout) -> str:
    """The sentences below the picture, a line each, as markdown."""
    shared = sharing_text(placed) if array_grid(placed).joined else None  # else shards name them
    sentences = (shared, hosts_text(placed), joined_note(placed), scale_note(placed))
    return "  \n".join(plain(sentence) for sentence in sentences if sentence)


def scale_note(placed: Layout) -> str | None:
    """How far the array's proportions are from the picture's; None where they are the same, or
    there is but one dim.
    """
    grid = array_grid(placed)
    if grid.stretch is None or grid.is_to_scale:
        return None
    return not_to_scale(placed.dim_name(grid.rows.dim), grid.stretch)


def table(placed: Layout, dtype: str) -> pd.DataFrame:
    """The numbers of the picture, one row a device, the first 4,096: coordinates, slice of every
    dim, bytes, who holds the same.
    """
    count = min(placed.device_count, TABLE_ROWS)
    shards, place = np.unique(placed.shard_of[:count], return_inverse=True)
    same = group_texts(placed.named_groups[shards])
    columns: dict[str, object] = {"device": placed.numbers[:count]}
    if placed.hosts is not None:
        columns["host"] = placed.hosts[:count]
    columns |= {
        name: placed.coordinates[:count, axis] for axis, (name, _) in enumerate(placed.mesh)
    }
    columns |= {
        f"[{placed.dim_name(dim)}]": range_texts(
            placed.starts[:count, dim], placed.stops[:count, dim]
        )
        for dim in range(len(placed.shape))
    }
    return pd.DataFrame(
        columns
        | {
            "bytes": [placed.shard_bytes(dtype)] * count,
            "held by devices": [same[shard] for shard in place.tolist()],
        }
    )


def _array_edge(placed: Layout) -> Edge:
    sizes = placed.shard_shape

    def edge(dim: int, first: int, stop: int) -> tuple[str, str]:
        if not sizes:
            return "", ""
        start = compact(first * sizes[dim])
        return f"{start}:{compact(stop * sizes[dim])}", start

    return edge


def _mesh_edge(placed: Layout) -> Edge:
    def edge(axis: int, first: int, stop: int) -> tuple[str, str]:
        name = placed.mesh[axis][0]
        return f"{name}={first}" if stop - first == 1 else f"{name}={first}–{stop - 1}", str(first)

    return edge


def _undrawn(placed: Layout, grid: Grid) -> str:
    """Returns which dims no cell is split by, with their sizes."""
    drawn = {grid.rows.dim, grid.columns.dim, *(digit.dim for digit in grid.panels)}
    names = [
        f"{placed.dim_name(dim)} ({count_text(size)})"
        for dim, size in enumerate(placed.shape)
        if dim not in drawn
    ]
    return f"; not drawn: {', '.join(names)}" if names else ""


def _roles(grid: Grid, name: Callable[[int], str]) -> str:
    if grid.rows.dim == grid.columns.dim:
        return f"along {name(grid.rows.dim)}" + (", line by line" if grid.rows.size > 1 else "")
    panels = sorted({digit.dim for digit in grid.panels} - {grid.rows.dim, grid.columns.dim})
    words = [
        f"rows: {name(grid.rows.dim)}",
        f"columns: {name(grid.columns.dim)}",
        *([f"panels: {' and '.join(map(name, panels))}"] if panels else []),
    ]
    return "; ".join(words)

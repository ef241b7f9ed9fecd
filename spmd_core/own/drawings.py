"""Pictures of an explained step: SVG without scripts, style sheets or anything loaded, whose colors are
read on a light and on a dark page.
"""

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import product
from math import prod

import numpy as np

from spmd_core.answers import devices_text
from spmd_core.base import by_key, bytes_text, mesh_text, seconds_text
from spmd_core.own.first_screen import groups_of, rows_held
from spmd_core.pictures import rectangles
from spmd_core.results import ArraySpec, StepArray, StepDescription

WIDTH = 340  # pixels: as wide as a phone
_CHARACTER, _LINE = 6.4, 16  # pixels of a text
_FILLS = ("#2f6ab5", "#1f7a72", "#6a4fc0", "#96601a", "#3f7a48", "#93478c", "#566072")
_REPLICATED, _WAITS, _LINK = "#b8374a", "#b8374a", "#8a94a3"
_TILES, _BARS = 24, 8  # the most that are drawn
_COLUMNS, _ROWS = 8, 8
_INSIDE = 'fill="#fff" pointer-events="none"'  # of texts on a filled rectangle


def drawn(title: str, height: float, parts: Sequence[str]) -> str:
    """Returns a picture with its title above it."""
    return (
        f'<figure style="margin:0 0 12px;max-width:480px">'
        f'<figcaption style="font-weight:600">{escape(title)}</figcaption>'
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{escape(title)}" '
        f'viewBox="0 0 {WIDTH} {height:g}" style="display:block;width:100%;height:auto" '
        f'font-family="system-ui, sans-serif" font-size="11" fill="currentColor">'
        f"{''.join(parts)}</svg></figure>"
    )


def held(arguments: Sequence[StepArray]) -> str:
    """Returns where the bytes of a device are: a rectangle for each kind of array."""
    rows = [row for row in rows_held(arguments) if row[2]]
    if not rows:
        return ""
    if len(rows) > _TILES:
        rest = rows[_TILES - 1 :]
        total, count = sum(row[2] for row in rest), sum(row[3] for row in rest)
        rows = [*rows[: _TILES - 1], ("the smaller arrays", "", total, count)]
    height = 0.62 * WIDTH
    fills = {
        spec: _FILLS[at % len(_FILLS)] if "'" in spec or not spec else _REPLICATED
        for at, spec in enumerate(dict.fromkeys(row[1] for row in rows))
    }
    parts = []
    places = rectangles([row[2] for row in rows], (0, 0, 1, 1), height / WIDTH)
    for (path, spec, nbytes, _), (x, y, width, tall) in zip(rows, places, strict=True):
        place = (WIDTH * x, height * y, WIDTH * width, height * tall)
        names = [path.split("/", at)[-1] for at in range(path.count("/") + 1)]
        parts.append(_rectangle(place, fills[spec], f"{path} {bytes_text(nbytes)} {spec}"))
        parts += _inside(place, [names, [bytes_text(nbytes)]])
    for at, (spec, fill) in enumerate(fills.items()):
        y = height + 8 + _LINE * at
        parts.append(_rectangle((0, y, 10, 10), fill, spec))
        words = f"{spec}, replicated" if spec and "'" not in spec else spec or "several specs"
        parts.append(_text(15, y + 9, words, WIDTH - 15))
    total = sum(row[2] for row in rows)
    bottom = height + 8 + _LINE * len(fills)
    return drawn(f"Arguments: {bytes_text(total)} a device", bottom, parts)


def layout(name: str, shape: Sequence[int], spec: ArraySpec, mesh: Mapping[str, int]) -> str:
    """Returns the devices of each shard of an array, by the last two dims that are sharded."""
    axes = [
        (dim,) if isinstance(dim, str) else tuple(dim or ())
        for dim in (*spec, *[None] * len(shape))
    ]
    dims = [(), (), *axes[: len(shape)]]
    while len(dims) > 2:
        dims.pop(dims.index(()) if () in dims else 0)
    counts = [prod(mesh[axis] for axis in dim) for dim in dims]
    rows, columns = min(counts[0], _ROWS), min(counts[1], _COLUMNS)
    numbers = np.arange(prod(mesh.values())).reshape(tuple(mesh.values()))
    width, tall = WIDTH / columns, max(24.0, min(40.0, 160 / rows))
    parts = []
    for row, column in product(range(rows), range(columns)):
        there = _of_block(numbers, list(mesh), mesh, dims, (row, column))
        place = (width * column, tall * row, width - 2, tall - 2)
        words = [devices_text(there), f"{there[0]} …"]
        fill = _FILLS[0] if len(there) < numbers.size else _REPLICATED
        parts += [_rectangle(place, fill, f"devices {words[0]}"), *_inside(place, [words])]
    bottom = tall * rows + _LINE
    some = "the first shards; " if (rows, columns) != tuple(counts) else ""
    parts.append(_text(0, bottom - 4, f"{some}devices by their place in the mesh", WIDTH))
    sizes = ", ".join(map(str, shape))
    return drawn(f"{name} [{sizes}] on {mesh_text(tuple(mesh.items()))}", bottom, parts)


def _of_block(numbers: np.ndarray, names: Sequence[str], mesh: Mapping[str, int], dims: Sequence[Sequence[str]], block: Sequence[int]) -> list[int]:  # fmt: skip
    """The devices that hold a shard, whose place in each dim is given."""
    chosen: list[int | slice] = [slice(None)] * len(names)
    for axes, at in zip(dims, block, strict=True):
        for axis, place in zip(axes, np.unravel_index(at, [mesh[each] for each in axes] or [1]), strict=False):  # fmt: skip
            chosen[names.index(axis)] = int(place)
    return [int(each) for each in np.ravel(numbers[tuple(chosen)])]


def traffic(step: StepDescription) -> str:
    """Returns the mesh with an arrow along each axis that collectives move bytes over."""
    by_axes = by_key(
        (each.axes, each) for group in groups_of(step.collectives or ()) for each in group
    )
    total = {
        axes: sum(each.bytes_total or each.bytes for each in alike)
        for axes, alike in by_axes.items()
    }
    sizes = [(name, size) for name, size in step.mesh if size > 1][-2:]
    if not sizes or not total:
        return ""
    along = {name: sum(count for axes, count in total.items() if name in axes) for name, _ in sizes}
    (down, rows), (across, columns) = [("", 1), *sizes][-2:]
    shown = min(rows, 4), min(columns, _COLUMNS)
    parts = [*_mesh(*shown, along.get(down, 0), along.get(across, 0))]
    bottom = 44.0 * shown[0] + 4
    if shown != (rows, columns):
        parts.append(_text(0, bottom, f"the first {shown[0]} x {shown[1]} devices", WIDTH))
        bottom += _LINE
    ways = {down: "↓", across: "→"}
    for axes, nbytes in sorted(total.items(), key=lambda each: -each[1]):
        kinds = ", ".join(dict.fromkeys(each.kind for each in by_axes[axes]))
        arrow = "".join(ways.get(axis, "") for axis in axes)
        words = f"{arrow} {', '.join(axes) or 'no axis'}: {bytes_text(nbytes)} a step, {kinds}"
        for line in textwrap.wrap(words, int(WIDTH / _CHARACTER), subsequent_indent="   "):
            bottom += _LINE
            parts.append(_text(0, bottom - 5, line, WIDTH))
    return drawn(f"Communication over {mesh_text(step.mesh)}", bottom, parts)


def _mesh(rows: int, columns: int, down: int, across: int) -> Iterator[str]:
    """Devices as squares, and arrows between neighbors, wider the more bytes are moved."""
    wide, most = WIDTH / columns, max(down, across) or 1
    half = min(20.0, wide / 4)
    for row, column in product(range(rows), range(columns)):
        x, y = wide * (column + 0.5), 44.0 * row + 20
        yield _rectangle((x - half, y - 12, 2 * half, 24), _LINK, "device")
        if across and column < columns - 1:
            yield _arrow((x + half + 2, y), (x + wide - half - 2, y), across / most)
        if down and row < rows - 1:
            yield _arrow((x, y + 13), (x, y + 31), down / most)


def _arrow(start: tuple[float, float], end: tuple[float, float], share: float) -> str:
    (x, y), (x2, y2) = start, end
    width = 1.5 + 3 * share
    head = (
        f"{x2 - 5:g},{y2 - 5:g} {x2:g},{y2:g} {x2 - 5:g},{y2 + 5:g}"
        if y == y2
        else f"{x2 - 5:g},{y2 - 5:g} {x2:g},{y2:g} {x2 + 5:g},{y2 - 5:g}"
    )
    stop = (x2 - 5, y2) if y == y2 else (x2, y2 - 5)
    return (
        f'<path d="M{x:g} {y:g}L{stop[0]:g} {stop[1]:g}" stroke="{_WAITS}" stroke-width="{width:.1f}"/>'
        f'<polygon points="{head}" fill="{_WAITS}"/>'
    )


def times(step: StepDescription) -> str:
    """Returns the time of a step with what it waits for, where a target is priced; else the bytes that
    each line moves.
    """
    every = groups_of(step.collectives or ())
    groups, predicted = every[:_BARS], step.predicted_s
    waited = sum(each.exposed_s or 0.0 for group in every for each in group)
    waits = [sum(each.exposed_s or 0.0 for each in group) for group in groups]
    moved = [sum(each.bytes_total or each.bytes for each in group) for group in groups]
    if not groups and predicted is None:
        return ""
    values = waits if predicted and any(waits) else moved
    words = seconds_text if predicted and any(waits) else lambda value: bytes_text(int(value))
    parts, y = list[str](), 0.0
    if predicted is not None:
        computes = WIDTH * (1 - min(1.0, waited / predicted.estimate))
        parts += [_rectangle((0, 0, computes, 22), _FILLS[0], "computes")]
        parts += [_rectangle((computes, 0, WIDTH - computes, 22), _WAITS, "waits")]
        computed = max(0.0, predicted.estimate - waited)
        shares = f"computes {seconds_text(computed)}, waits {seconds_text(waited)}"
        parts.append(_text(0, 36, shares, WIDTH))
        y = 44.0
    for group, value in zip(groups, values, strict=True):
        first = group[0]
        label = f"{first.kind} over {', '.join(first.axes) or 'no axis'}"
        line = (first.source or "no line").rpartition("/")[2]
        length = (WIDTH - 80) * value / (max(values) or 1)
        parts += [
            _text(0, y + 11, label, WIDTH),
            _text(0, y + 24, line, WIDTH, first.source or ""),
            _rectangle((0, y + 29, max(1.0, length), 8), _WAITS, label),
            _text(length + 5, y + 37, words(value), 80),
        ]
        y += 48
    head = f"A step: {seconds_text(predicted.estimate)}" if predicted else "Bytes a device and step by line"  # fmt: skip
    return drawn(head, y, parts)


def _rectangle(place: tuple[float, float, float, float], fill: str, words: str) -> str:
    x, y, width, height = place
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" '
        f'rx="2" fill="{fill}" stroke="#fff" stroke-opacity="0.6"><title>{escape(words)}</title></rect>'
    )


def _text(x: float, y: float, words: str, room: float, more: str = "") -> str:
    most = int(room / _CHARACTER)
    shown = words if len(words) <= most else f"{words[: most - 1]}…"
    title = f"<title>{escape(more or words)}</title>" if more or shown != words else ""
    return f'<text x="{x:.1f}" y="{y:.1f}">{escape(shown)}{title}</text>'


def _inside(
    place: tuple[float, float, float, float], lines: Sequence[Sequence[str]]
) -> Iterator[str]:
    """Of each line the first text that a rectangle has room for."""
    x, y, width, height = place
    at = y + 13
    for texts in lines:
        words = next((each for each in texts if len(each) * _CHARACTER + 8 <= width), None)
        if words and at + 3 <= y + height:
            yield f'<text x="{x + 4:.1f}" y="{at:.1f}" {_INSIDE}>{escape(words)}</text>'
            at += 13

"""A layout drawn with characters: the array as a grid of shards, each with the devices that hold
it.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from spmd_core.base import mesh_text
from spmd_core.experiment import Experiment, Layout, dtype_of, layout_of, spec_code
from spmd_core.terms import layout_headline

MAX_ROWS = 24  # blocks down one grid
MAX_GRIDS = 6  # slices of an array of rank above 2
MAX_LISTED = 16


def layout_lines(experiment: Experiment, name: str, width: int) -> list[str]:
    """Returns the layout of an operand or result: its headline, and its grid."""
    layout, dtype = layout_of(experiment, name), dtype_of(experiment, name)
    mesh = mesh_text(experiment.mesh)
    memory = (
        "" if experiment.memory_kind(name) == "device" else f" in {experiment.memory_kind(name)}"
    )
    head = f"{name}: {dtype}{list(layout.shape)}, {spec_code(layout.spec)} on mesh {mesh}{memory}"
    dims = experiment.what.array(name).present(experiment.sizes)
    return [head, layout_headline(layout, dtype), "", *draw(layout, dims, width)]


def draw(layout: Layout, dims: Sequence[str], width: int = 80) -> list[str]:
    """Lines of at most `width` characters: one grid per block of the leading dims; a list of
    devices where no grid fits.
    """
    if not dims:
        return [f"Every device holds it: {devices_text(list(range(layout.device_count)))}."]
    texts = np.array([devices_text(row) for row in layout.named_groups.tolist()], dtype=object)
    cells = texts.reshape(layout.parts if len(layout.parts) > 1 else (1, *layout.parts))
    rows, columns = cells.shape[-2:]
    leading = cells.shape[:-2]
    cell = max(len(text) for text in cells.flat) + 2
    head = _labels(layout, dims, -2) if len(dims) > 1 else [""]
    foot = _labels(layout, dims, -1)
    cell = max(cell, max(len(label) for label in foot) + 1)
    if rows > MAX_ROWS or max(len(label) for label in head) + 1 + (cell + 1) * columns + 1 > width:
        return _listed(layout, dims)
    lines: list[str] = []
    for number, block in enumerate(itertools.product(*(range(size) for size in leading))):
        if number == MAX_GRIDS:
            lines += ["", f"… and {int(np.prod(leading)) - MAX_GRIDS} more slices like these"]
            break
        if leading:
            lines += ["" for _ in lines[:1]] + [
                ", ".join(_label(layout, dims, dim, part) for dim, part in enumerate(block))
            ]
        lines += _grid(cells[block], head, foot, cell)
    return [
        *lines,
        "",
        f"Rows: {dims[-2]}. Columns: {dims[-1]}. In each cell: the devices that hold it."
        if len(dims) > 1
        else f"Columns: {dims[-1]}. In each cell: the devices that hold it.",
    ]


def _labels(layout: Layout, dims: Sequence[str], dim: int) -> list[str]:
    return [_label(layout, dims, dim, part).partition(" ")[2] for part in range(layout.parts[dim])]


def _label(layout: Layout, dims: Sequence[str], dim: int, part: int) -> str:
    size = layout.shard_shape[dim]
    return f"{dims[dim]} {part * size}:{(part + 1) * size}"


def _grid(cells: np.ndarray, head: list[str], foot: list[str], width: int) -> Iterator[str]:
    margin = max(len(label) for label in head)
    pad = " " * (margin + (1 if margin else 0))

    def rule(left: str, middle: str, right: str) -> str:
        return pad + left + middle.join("─" * width for _ in foot) + right

    yield pad + "".join(f" {label:^{width}}" for label in foot).rstrip()
    yield rule("┌", "┬", "┐")
    for number, row in enumerate(cells):
        if number:
            yield rule("├", "┼", "┤")
        yield (
            f"{head[number]:>{margin}}{' ' if margin else ''}│"
            + "│".join(f"{text:^{width}}" for text in row)
            + "│"
        )
    yield rule("└", "┴", "┘")


def _listed(layout: Layout, dims: Sequence[str]) -> list[str]:
    lines = []
    for device in range(min(layout.device_count, MAX_LISTED)):
        ranges = ", ".join(
            f"{dim} {start}:{stop}"
            for dim, start, stop in zip(
                dims, layout.starts[device], layout.stops[device], strict=True
            )
        )
        lines.append(f"device {layout.numbers[device]}: {ranges}")
    if layout.device_count > MAX_LISTED:
        lines.append(
            f"… and {layout.device_count - MAX_LISTED:,} more devices; --json lists them all"
        )
    return lines


def devices_text(devices: Sequence[int], limit: int = 14) -> str:
    """Device numbers, ascending, as briefly as possible.

    >>> devices_text([0, 1, 2, 3]), devices_text([0, 4]), devices_text(list(range(0, 64, 4)))
    ('0-3', '0 4', '0 4 8 … (16)')
    """
    if len(devices) > 2 and devices[-1] - devices[0] == len(devices) - 1:
        return f"{devices[0]}-{devices[-1]}"
    text = " ".join(str(device) for device in devices)
    if len(text) <= limit:
        return text
    return f"{' '.join(str(device) for device in devices[:3])} … ({len(devices)})"

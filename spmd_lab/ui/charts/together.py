"""Operands and result side by side, to one scale: each as its shards, in the colors of who holds
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import streamlit as st

from spmd_core.base import bytes_text
from spmd_core.experiment import (
    Array,
    Experiment,
    Layout,
    dtype_of,
    layout_of,
    shape_text,
    spec_code,
)
from spmd_core.pictures import is_product
from spmd_lab.ui.charts import layout_words as words
from spmd_lab.ui.charts.base import INK, Row, Spec, as_is, hover, layer, layered, quantity
from spmd_lab.ui.charts.layout_words import group_texts, index_texts, short_group_texts
from spmd_lab.ui.charts.shades import colors
from spmd_lab.ui.markdown import plain

MOST_OPERANDS = 6  # side by side
MOST_BLOCKS = 32  # along a dim; of more, neighbors are one block
_GAP, _WIDEST_GAP = 0.09, 0.25  # between arrays, as a share of all of the width
_LEAST = 0.18  # of the widest or tallest array
_LOWEST, _TALLEST = 120.0, 270.0  # pixels
HEAD = 44.0  # pixels above the arrays
# pixels that it takes at most: of two arrays, and of more; in a narrower window all sides shrink
# alike
_WIDE, _WIDER = 450.0, 900.0
_INK = "#15181d"
_HOVER = hover(array="array", devices="devices", holds="hold", bytes="bytes")
_BLOCK = {"type": "rect", "stroke": "#ffffff", "strokeWidth": 1, "cornerRadius": 2}
_BLOCK_FONT = (
    "min(13, (datum.x2 - datum.x) * min(width, wide) / datum.letters / 0.58, "
    "0.8 * (datum.y2a - datum.ya))"
)
_BLOCK_LABEL = {
    "type": "text",
    "color": _INK,
    "tooltip": None,
    "aria": False,
    "fontSize": {"expr": _BLOCK_FONT},
    "opacity": {"expr": f"{_BLOCK_FONT} < 7 ? 0 : 1"},
}
_MIDDLE = (
    {"calculate": "(datum.x + datum.x2) / 2", "as": "mx"},
    {"calculate": "(datum.ya + datum.y2a) / 2", "as": "my"},
)
_TITLE = {  # above an array, smaller where there is little room
    "type": "text",
    "align": {"expr": "datum.align"},
    "fontSize": {"expr": "min(datum.size, datum.fits * min(width, wide))"},
    "fontWeight": {"expr": "datum.weight"},
    **INK,
}
_SIGN = {"type": "text", "fontSize": 18, **INK}


@dataclass(frozen=True, slots=True)
class Box:
    """An array where it is drawn: left edge and width as shares of the width, height in pixels."""

    array: Array
    held: Layout
    left: float
    width: float
    height: float


def chart(experiment: Experiment, arrays: Sequence[Array]) -> Spec:
    """The picture: `x @ weights = y` of arrays as rectangles, split as they are sharded."""
    boxes = boxes_of(experiment, arrays)
    tallest = max(box.height for box in boxes)
    blocks = [block for box in boxes for block in blocks_of(experiment, box, tallest)]
    titles = [title for box in boxes for title in _titles(experiment, box, boxes)]
    across = {"domainMin": 0, "domainMax": {"expr": "max(1, width / wide)"}, "nice": False}
    down = {"domain": [0, HEAD + tallest], "nice": False, "zero": False, "reverse": True}
    x, y = quantity("x", axis=None, scale=across), quantity("y", axis=None, scale=down)
    top = y | {"field": "ya"}
    text = {"field": "text"}
    scaled = [_scaled("y"), _scaled("y2")]
    rectangles = layer(
        blocks,
        _BLOCK,
        x=x,
        y=top,
        x2={"field": "x2"},
        y2={"field": "y2a"},
        color=as_is("color"),
        tooltip=_HOVER,
    )
    middle = {"x": x | {"field": "mx"}, "y": y | {"field": "my"}}
    layers = [
        rectangles | {"transform": scaled},
        layer(blocks, _BLOCK_LABEL, **middle, text=text) | {"transform": [*scaled, *_MIDDLE]},
        layer(titles, _TITLE, x=x, y=y, text=text),
        layer(_signs(experiment, boxes, tallest), _SIGN, x=x, y=top, text=text)
        | {"transform": [_scaled("y")]},
    ]
    wide = {"name": "wide", "value": wide_of(arrays)}
    return layered(layers, round(HEAD + tallest + 4), params=[wide])


def show(experiment: Experiment) -> None:
    """Operands and results side by side, in the colors of who holds them; nothing where they are
    too many.
    """
    arrays = drawn(experiment)
    if not arrays:
        return
    st.vega_lite_chart(
        chart(experiment, arrays),
        key="together",
        alt=words.together_alt(experiment, [array.name for array in arrays]),
    )
    planes = any(len(experiment.shape(array.name)) > 2 for array in arrays)
    st.caption(plain(words.together_about(is_to_scale(experiment, arrays), planes)))


def drawn(experiment: Experiment) -> list[Array]:
    """The arrays that the picture shows: operands of two dims and more, of one where there is no
    other, and results of one dim and more; empty where too many would stand side by side.
    """
    what = experiment.what
    ranks = {each.name: len(experiment.shape(each.name)) for each in what.operands + what.results}
    least = 2 if any(ranks[each.name] > 1 for each in what.operands) else 1
    operands = [each for each in what.operands if ranks[each.name] >= least]
    results = [each for each in what.results if ranks[each.name]]
    return [*operands, *results] if operands and len(operands) <= MOST_OPERANDS else []


def wide_of(arrays: Sequence[Array]) -> float:
    """Returns the width of these arrays at most, in pixels."""
    return _WIDE if is_narrow(arrays) else _WIDER


def is_narrow(arrays: Sequence[Array]) -> bool:
    """Whether the picture leaves half of a wide window to what stands beside it."""
    return len(arrays) <= 2


def _signs(experiment: Experiment, boxes: Sequence[Box], tallest: float) -> list[Row]:
    """`@`, `+` and `=` between the arrays of a product; of others, what leads to what."""
    results = sum(box.array in experiment.what.results for box in boxes)
    if is_product(experiment.what):
        between = [*["@", *["+"] * len(boxes)][: max(0, len(boxes) - 2)], "="]
    else:
        between = [*[""] * (len(boxes) - results - 1), "→", *[""] * (results - 1)]
    return [
        {
            "x": (one.left + one.width + other.left) / 2,
            "y": HEAD + tallest / 2,
            "text": sign,
        }
        for sign, (one, other) in zip(between, pairwise(boxes), strict=False)
    ]


def _scaled(field: str) -> dict[str, str]:
    """A height of the arrays in the width that there is."""
    shrunk = f"{HEAD:g} + (datum.{field} - {HEAD:g}) * min(1, width / wide)"
    return {"calculate": shrunk, "as": f"{field}a"}


def _dims(held: Layout) -> list[int]:
    """The dims that are drawn, two at most: sharded ones first, then the last ones."""
    by_use = sorted(range(len(held.shape)), key=lambda dim: (held.parts[dim] > 1, dim))
    return sorted(by_use[-2:])


def _plane(held: Layout) -> tuple[int, int]:
    """Rows and columns of an array as it is drawn, one row where it has but one dim."""
    sizes = (1, 1, *(held.shape[dim] for dim in _dims(held)))[-2:]
    return sizes[0], sizes[1]


def _shards(held: Layout) -> np.ndarray:
    """The shards of the dims that are drawn, (rows, columns), at the start of every other dim."""
    numbers = np.arange(held.shard_count).reshape(held.parts)
    dims = _dims(held)
    shown = numbers[tuple(slice(None) if dim in dims else 0 for dim in range(numbers.ndim))]
    return np.atleast_2d(shown)


def boxes_of(experiment: Experiment, arrays: Sequence[Array]) -> list[Box]:
    """Returns where each array is drawn, to one scale as far as it can be read."""
    held = [layout_of(experiment, array.name) for array in arrays]
    planes = [_plane(each) for each in held]
    largest = max(max(plane) for plane in planes)
    # one scale for all; what would be too thin to be read is as thick as can be read
    sides = [tuple(max(side / largest, _LEAST) for side in plane) for plane in planes]
    across = (1 - _GAP * (len(arrays) - 1)) / sum(columns for _, columns in sides)
    tall = wide_of(arrays) * across
    if (most := tall * max(rows for rows, _ in sides)) > _TALLEST:
        across, tall = across * _TALLEST / most, tall * _TALLEST / most
    elif min(map(min, sides)) == _LEAST and most < _LOWEST:  # not to scale: high enough to read
        tall *= _LOWEST / most
    left_over = 1 - across * sum(columns for _, columns in sides)
    gap = min(left_over / max(1, len(sides) - 1), _WIDEST_GAP)
    boxes, left = [], 0.0
    for array, each, (rows, columns) in zip(arrays, held, sides, strict=True):
        boxes.append(Box(array, each, left, columns * across, rows * tall))
        left += columns * across + gap
    return boxes


def is_to_scale(experiment: Experiment, arrays: Sequence[Array]) -> bool:
    """Whether no array had to be drawn thicker than it is."""
    sides = [side for array in arrays for side in _plane(layout_of(experiment, array.name))]
    return min(sides) >= _LEAST * max(sides)


def blocks_of(experiment: Experiment, box: Box, tallest: float) -> list[Row]:
    """A rectangle for each shard of the dims that are drawn."""
    held, dtype = box.held, dtype_of(experiment, box.array.name)
    numbers = _shards(held)
    steps = [-(-part // MOST_BLOCKS) for part in numbers.shape]
    shown = numbers[:: steps[0], :: steps[1]]
    first = held.groups[:, 0]
    texts = short_group_texts(held.named_groups) if max(steps) == 1 else [""] * held.shard_count
    names, holds = (
        group_texts(held.named_groups),
        index_texts(held.starts[first], held.stops[first]),
    )
    shades = colors(first, held.device_count)
    width, height = box.width / shown.shape[1], box.height / shown.shape[0]
    top = HEAD + (tallest - box.height) / 2
    letters = max(2, max(map(len, texts)))
    return [
        {
            "x": round(box.left + column * width, 5),
            "x2": round(box.left + (column + 1) * width, 5),
            "y": round(top + row * height, 2),
            "y2": round(top + (row + 1) * height, 2),
            "color": shades[shard],
            "text": texts[shard],
            "letters": letters,
            "array": box.array.name,
            "devices": names[shard],
            "holds": holds[shard],
            "bytes": bytes_text(held.shard_bytes(dtype)),
        }
        for (row, column), shard in np.ndenumerate(shown)
    ]


def _titles(experiment: Experiment, box: Box, boxes: Sequence[Box]) -> list[Row]:
    """Name, spec and shape above an array, in the room there is up to the next one; of the last,
    back to the one before.
    """
    last = box is boxes[-1] and len(boxes) > 1
    gap = boxes[1].left - boxes[0].left - boxes[0].width if len(boxes) > 1 else 0.0
    room = box.width + (gap - 0.02) * (0.5 if any(box is each for each in boxes[-2:]) else 1.0)
    spec = spec_code(experiment.spec(box.array.name))
    words = (
        (9.0, box.array.name, 13.0, "bold"),
        (24.0, spec, 10.5, "normal"),
        (37.0, shape_text(box.held.shape), 10.5, "normal"),
    )
    return [
        {
            "x": box.left + box.width if last else box.left,
            "y": y,
            "text": text,
            "size": size,
            "weight": weight,
            "align": "right" if last else "left",
            "fits": room / (0.52 * len(text)),
        }
        for y, text, size, weight in words
    ]

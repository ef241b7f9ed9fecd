"""Operands and result side by side, to one scale: each as its shards, in the colors of who holds
them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from spmd_core.experiment import Experiment, Layout, layout_of
from spmd_core.workloads import Array
from spmd_lab.ui.charts.colors import colors, of_shards
from spmd_lab.ui.charts.layout_words import short_group_texts

MOST_OPERANDS, MOST_BROAD = 6, 3  # side by side; of which biases are drawn, too
MOST_BLOCKS = 32  # along a dim; of more, neighbors are one block
GAP, _APART = 30.0, 0.09  # between arrays: pixels, and at least that share of the width
_LEAST = 0.18  # of the widest or tallest array
# of a small picture's height: widths of two dims, the height of one dim and its width
_NARROW, _BROAD, _THIN, _LONG = 0.6, 1.3, 0.5, 0.9
_LOWEST, _TALLEST = 120.0, 270.0  # pixels
# pixels that it takes at most: of two arrays, and of more; in a narrower window all sides shrink
# alike
_WIDE, _WIDER = 450.0, 900.0


# left, top, width, height in pixels, color, and which devices hold it
Block = tuple[float, float, float, float, str, str]


@dataclass(frozen=True, slots=True)
class Box:
    """An array where it is drawn, in pixels."""

    array: Array
    held: Layout
    left: float
    width: float
    height: float


def drawn(experiment: Experiment, is_large: bool = False) -> list[Array]:
    """The arrays that the picture shows: operands of two dims and more, of one where there is no
    other or the results have one, or the picture `is_large` and has room, and results of one dim and
    more; empty where too many would stand side by side.
    """
    what = experiment.what
    ranks = {each.name: len(experiment.shape(each.name)) for each in what.operands + what.results}
    made = max((ranks[each.name] for each in what.results), default=0)
    least = 2 if made != 1 and any(ranks[each.name] > 1 for each in what.operands) else 1
    all_fit = is_large and len(what.operands) <= MOST_BROAD
    operands = [each for each in what.operands if ranks[each.name] >= (1 if all_fit else least)]
    # the compiler decides outputs of exported programs
    results = [each for each in what.results if ranks[each.name] and not experiment.exported]
    return [*operands, *results] if operands and len(operands) <= MOST_OPERANDS else []


def is_narrow(arrays: Sequence[Array]) -> bool:
    """Whether the picture leaves half of a wide window to what stands beside it."""
    return len(arrays) <= 2


def _dims(held: Layout) -> list[int]:
    """The dims that are drawn, two at most: sharded ones first, then the last ones."""
    by_use = sorted(range(len(held.shape)), key=lambda dim: (held.parts[dim] > 1, dim))
    return sorted(by_use[-2:])


def _plane(held: Layout) -> tuple[int, int]:
    sizes = (1, 1, *(held.shape[dim] for dim in _dims(held)))[-2:]
    return sizes[0], sizes[1]


def _shards(held: Layout) -> np.ndarray:
    numbers = np.arange(held.shard_count).reshape(held.parts)
    dims = _dims(held)
    shown = numbers[tuple(slice(None) if dim in dims else 0 for dim in range(numbers.ndim))]
    return np.atleast_2d(shown)


def boxes_of(experiment: Experiment, arrays: Sequence[Array], is_small: bool = False) -> list[Box]:
    """Returns where each array is drawn, to one scale as far as it can be read; of a small picture
    each as high as the others, unless it has one dim.
    """
    held = [layout_of(experiment, array.name) for array in arrays]
    planes = [_plane(each) for each in held]
    largest = max(max(plane) for plane in planes)
    # one scale for all; what would be too thin to be read is as thick as can be read
    sides = [tuple(max(side / largest, _LEAST) for side in plane) for plane in planes]
    if is_small and len(planes) > 1:
        sides = [
            (1.0, min(max(columns / rows, _NARROW), _BROAD)) if rows > 1 else (_THIN, _LONG)
            for rows, columns in planes
        ]
    wide = _WIDE if is_narrow(arrays) else _WIDER
    across = tall = wide * (1 - _APART * (len(arrays) - 1)) / sum(columns for _, columns in sides)
    if (most := tall * max(rows for rows, _ in sides)) > _TALLEST:
        across, tall = across * _TALLEST / most, tall * _TALLEST / most
    elif min(map(min, sides)) == _LEAST and most < _LOWEST:  # not to scale: high enough to read
        tall *= _LOWEST / most
    boxes, left = [], 0.0
    for array, each, (rows, columns) in zip(arrays, held, sides, strict=True):
        boxes.append(Box(array, each, left, columns * across, rows * tall))
        left += columns * across + GAP
    return boxes


def is_to_scale(experiment: Experiment, arrays: Sequence[Array]) -> bool:
    """Whether no array had to be drawn thicker than it is."""
    sides = [side for array in arrays for side in _plane(layout_of(experiment, array.name))]
    return min(sides) >= _LEAST * max(sides)


def blocks_of(box: Box, tallest: float, is_alone: bool = False) -> list[Block]:
    """A rectangle for each shard of the dims that are drawn, from the left edge of its array. An array
    that `is_alone` has the colors of Layout; several share those of their devices.
    """
    held = box.held
    numbers = _shards(held)
    steps = [-(-part // MOST_BLOCKS) for part in numbers.shape]
    shown = numbers[:: steps[0], :: steps[1]]
    first = held.groups[:, 0]
    texts = short_group_texts(held.named_groups) if max(steps) == 1 else [""] * held.shard_count
    shades = of_shards(first, held.device_count) if is_alone else colors(first, held.device_count)
    width, height = box.width / shown.shape[1], box.height / shown.shape[0]
    top = (tallest - box.height) / 2
    return [
        (column * width, top + row * height, width, height, shades[shard], texts[shard])
        for (row, column), shard in np.ndenumerate(shown)
    ]

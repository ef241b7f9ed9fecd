"""The colors of kinds of time, on light pages and dark ones alike: charts, timelines and captions
have them from here; and the colors of rows.
"""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from spmd_core.base import by_key
from spmd_core.experiment import Experiment
from spmd_core.results import Result
from spmd_core.terms import COLORS, MARKERS, in_quotes, marker, row_title, spoken, title
from spmd_core.workloads import STRATEGIES
from spmd_lab.ui.markdown import coded, plain, unbroken

_SHORT = 30  # characters of a name that is not broken, as what follows it may not be parted from it
_CHROMA = 0.095
_FEW = 16  # up to so many, neighbors also differ in lightness
_LMS = np.array(
    [
        [1, 0.3963377774, 0.2158037573],
        [1, -0.1055613458, -0.0638541728],
        [1, -0.0894841775, -1.291485548],
    ]
)
_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)


def colors(numbers: NDArray[np.int64], count: int) -> list[str]:
    """A color for each number below `count`, as hex: the hue goes once around, and of a few
    neighbors every second is darker.

    OKLCH to sRGB with the matrices of Björn Ottosson, https://bottosson.github.io/posts/oklab/
    """
    hue = 2 * np.pi * (0.07 + 0.92 * numbers / max(count, 1))
    light = np.where(numbers % 2, 0.76, 0.85) if count <= _FEW else np.full(len(numbers), 0.81)
    linear = np.clip(
        _RGB @ (_LMS @ np.stack([light, _CHROMA * np.cos(hue), _CHROMA * np.sin(hue)])) ** 3, 0, 1
    )
    rgb = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return [
        f"#{red:02x}{green:02x}{blue:02x}"
        for red, green, blue in np.rint(rgb.T * 255).astype(int).tolist()
    ]


def of_shards(first: NDArray[np.int64], devices: int) -> list[str]:
    """Returns the color of each shard: that of its first device; among many devices by its place, as
    those of a few shards would be alike.
    """
    return colors(first, devices) if devices <= _FEW else colors(*_ranks(first))


def _ranks(first: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """Returns the number of each group of devices, by its first one, and how many groups there are."""
    ranked, number = np.unique(first, return_inverse=True)
    return number, len(ranked)


WRONG = "#c9485b"  # what is too large, waits or is replicated
KINDS = {  # in the order of a legend
    "matmul": "#3b76c4",
    "kernel": "#7a5cc7",
    "compute": "#79aaea",
    "memory": "#5aa6a0",
    "hidden": "#a9b4c2",
    "exposed": "#d9730d",
    "wait": WRONG,
    "copy": "#8d8a5e",
    "loop": "#6c7686",
}

# of parts of memory, in the order of a bar: shades of what is kept of weights, of activations, of
# gradients, of logits
HELD = {
    "frozen weights": "#2c3f60",
    "weights and optimizer state": "#46618c",
    "embedding": "#5f7fb3",
    "bfloat16 copies": "#7f9cc9",
    "saved activations": "#c58a3a",
    "other microbatches": "#dbb277",
    "saved arrays in another layout": "#a06c24",
    "gradients": "#8a6fb0",
    "gradients that are added up": "#b3a0d0",
    "complete gradients of a microbatch": "#674a91",
    "one block's backward pass": "#b35c86",
    "logits": "#5f9a86",
    "logits and output table": "#5f9a86",
    "logits of later tokens": "#93c2b1",
    "gradient of the logits": "#3d7362",
    "gradient of the table": "#3d7362",
    "weights": "#46618c",
    "cache": "#c58a3a",
    "arguments": "#46618c",
    "temporaries": "#c58a3a",
}
# of what takes the time of an output token
SERVED = {
    "reading weights": "#46618c",
    "reading cache": "#c58a3a",
    "matmuls": KINDS["matmul"],
    "collectives": KINDS["exposed"],
    "dispatch": KINDS["loop"],
    "prompts beside it": KINDS["hidden"],
}
OTHER_HELD = "#a3a9b3"
UNUSED = "light-dark(#e6eaf0, #2a3442)"

# of each marker in Vega: a name, or a path within 1 of the middle, a hollow one with its hole turned
_SHAPES: dict[str, str] = dict(
    zip(
        MARKERS,
        (
            "circle",
            "square",
            "triangle-up",
            "diamond",
            "cross",
            "triangle-down",
            "M0,-1.3L.31,-.43L1.24,-.4L.52,.16L.76,1.05L0,.54L-.76,1.05L-.52,.16L-1.24,-.4L-.31,-.43Z",
            "M1.1,0A1.1,1.1,0,1,1,-1.1,0A1.1,1.1,0,1,1,1.1,0ZM.6,0A.6,.6,0,1,0,-.6,0A.6,.6,0,1,0,.6,0Z",
            "M-1,-1H1V1H-1ZM-.5,-.5V.5H.5V-.5Z",
            "M0,-1.2L1.2,.9H-1.2ZM0,-.2L-.45,.5H.45Z",
            "M0,-1.3L1.1,0L0,1.3L-1.1,0ZM0,-.65L-.55,0L0,.65L.55,0Z",
            "M0,1.2L1.2,-.9H-1.2ZM0,.2L-.45,-.5H.45Z",
        ),
        strict=True,
    )
)


RING = _SHAPES[MARKERS[7]]  # hollow


def order(experiment: Experiment) -> list[str]:
    """Returns titles of rows in the order of the theme's colors; of a color without a row its place."""
    rows = [row.key for row in experiment.rows] if experiment.variants else STRATEGIES
    titles = {experiment.palette_place(row): title(row) for row in rows}
    return [titles.get(place, f"{place}") for place in range(max(titles) + 1)]


def domain(experiment: Experiment, labels: Mapping[str, str]) -> list[str]:
    """Returns the domain of a color scale in which each label has the color of its row's title."""
    names = order(experiment)
    for label, name in labels.items():
        if label not in names and name in names:
            names += [
                *(f"{len(names) + at}" for at in range((names.index(name) - len(names)) % COLORS)),
                label,
            ]
    return names


def css(experiment: Experiment, name: str) -> str:
    """Returns the color of a row as CSS, for both themes."""
    return f"var(--row-{experiment.palette_place(name) % COLORS})"


def shape(experiment: Experiment, name: str) -> str:
    """Returns the marker of a row by its shape in Vega."""
    return _SHAPES[marker(experiment, name)]


def of_variants(experiment: Experiment) -> dict[str, list[str]]:
    """Returns the rows of each variant of a study that rank it; of one without, its baselines."""
    every = by_key((row.variant, row.key) for row in experiment.rows)
    return every | by_key((row.variant, row.key) for row in experiment.ranked_rows)


def marked(experiment: Experiment, rows: Sequence[str], name: str) -> str:
    """Returns a name as Markdown after the markers of its rows, in their colors, by a number that the
    style sheet reads.
    """
    marks = [
        f':color[{marker(experiment, row)}]{{foreground="rgb(0,0,{place:d})"}}\u00a0'
        for row in rows
        for place in [experiment.palette_place(row) % COLORS]
    ]
    return f"{''.join(marks)}{plain(name)}"


def sentence(text: str, experiment: Experiment) -> str:
    """Returns a sentence as Markdown in which each row's name is set apart, after its marker."""
    rows = {spoken(row.key): ([row.key], _unbroken(title(row.key))) for row in experiment.rows}
    alone = [row for row in experiment.rows_once if row.key in experiment.baselines]
    if len(alone) == 1:
        named = title(alone[0].strategy)
        rows[named] = [alone[0].key], _unbroken(named)
    rows |= {
        in_quotes(each): (of, _unbroken(each))
        for each, of in of_variants(experiment).items()
        if each
    }
    either = "|".join(map(re.escape, sorted(rows, key=len, reverse=True)))
    parts = re.split(rf"(?<!\w)({either})(?!\w)", text)
    return "".join(
        f":gray-background[{marked(experiment, *rows[part])}]"
        if number % 2
        else " " * part.startswith(" ") + coded(unbroken(part)) + " " * part.endswith(" ")
        for number, part in enumerate(parts)
    )


def _unbroken(name: str) -> str:
    return name if len(name) > _SHORT else name.replace(" ", "\u00a0")


def cells(result: Result) -> Callable[[str], str]:
    """Returns how a cell that names rows is written as Markdown, each after its marker."""
    experiment, rows = (
        result.experiment,
        {row_title(result, each): each for each in result.strategies},
    )
    return lambda text: (
        marked(experiment, [rows[text]], text) if text in rows else sentence(text, experiment)
    )


def before(selector: str, experiment: Experiment, names: Sequence[str]) -> str:
    """Returns CSS that puts before each element of a list its row's marker in its color; `{}` in the
    selector is its place.
    """
    rules = (
        f'{selector.format(at)}::before {{ content: "{marker(experiment, name)}"; '
        f"color: {css(experiment, name)}; padding-right: 0.5em; }}"
        for at, name in enumerate(names, 1)
    )
    return f"<style>{''.join(rules)}</style>"


# of what nothing beats, and the others
BEST = "light-dark(#3b76c4, #6aa5ff)"
OTHER = "light-dark(#a9b4c2, #7d8998)"  # behind the best in both themes
WAITING = WRONG

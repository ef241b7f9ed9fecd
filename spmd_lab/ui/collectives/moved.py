"""What each collective does, as a picture: the blocks that devices hold before and after it."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import streamlit as st

from spmd_core.base import bytes_text, count_text, seconds_text
from spmd_core.experiment import COLLECTIVES, Experiment
from spmd_core.runs import RunStatus
from spmd_core.time import Case, cases
from spmd_core.words import kind_title
from spmd_lab.ui.charts.base import INK, Row, Spec, as_is, layer, layered, quantity
from spmd_lab.ui.charts.colors import colors
from spmd_lab.ui.markdown import code, plain

NOT_CALIBRATED = "Measure this machine's ceilings, to predict each point beside it"
CEILINGS = (
    "Calibrate times copies, matmuls, calls and collectives: what predictions of this machine use."
)
# of each collective: the function of jax.lax, and what a device has after it
COLLECTIVE_EFFECTS = {
    "all-reduce": ("psum", "Every device gets the sum of what all of them hold."),
    "all-gather": ("all_gather", "Every device gets the shards of all devices."),
    "reduce-scatter": ("psum_scatter", "Each device gets its shard of the sum."),
    "all-to-all": ("all_to_all", "Each device sends a different block to each other one."),
    "collective-permute": ("ppermute", "Each device sends its shard to the next one."),
}


def devices_drawn(drawn: int, devices: int) -> str:
    """The caption of what collectives do: how the pictures are read."""
    of = "" if drawn == devices else f", drawn for {drawn} of {devices} devices"
    return (
        f"Before → after, a row for each device{of}. Numbers and colors: the device that had the "
        "block before. Letters: parts of an array. Σ: a sum over all devices."
    )


def plan_words(
    experiment: Experiment, before: RunStatus | None = None, is_example: bool = False
) -> str:
    """Returns how many points a sweep will measure, and how long that takes at the pace of the one
    `before`.
    """
    asked = cases(experiment)
    points = _count(asked)
    low, high = min(case.sizes[0] for case in asked), max(case.sizes[-1] for case in asked)
    sizes = f"{count_text(points)} points from {bytes_text(low)} to {bytes_text(high)}"
    text = f"Measure times {sizes} on {experiment.target}"
    if before is None or not before.elapsed_s or not (timed := _count(cases(before.experiment))):
        return f"{text}."
    takes = seconds_text(before.elapsed_s / timed * points)
    return f"{text}: about {takes}, as {'the example' if is_example else 'the last sweep'}."


def _count(cases: Iterable[Case]) -> int:
    return sum(len(case.sizes) for case in cases)


MOST_DEVICES = 4  # in a picture: enough to see the pattern
_WIDTH, _STEP = 150, 24  # pixels of a picture, and of one device in it
_SUM, _SUM_COLOR = "Σ", "#d5d8de"
_BLOCK = {"type": "rect", "stroke": "#ffffff", "strokeWidth": 1, "cornerRadius": 2}
_LABEL = {"type": "text", "color": "#15181d", "fontSize": 11}
Held = tuple[int, int, int | None, str]  # device, place, whose data (None: a sum), label


def held(kind: str, devices: int) -> tuple[list[Held], list[Held]]:
    """The blocks of each device before and after a collective among so many devices.

    >>> held("collective-permute", 2)
    ([(0, 0, 0, '0'), (1, 1, 1, '1')], [(0, 0, 1, '1'), (1, 1, 0, '0')])
    """
    each = range(devices)
    every = [(device, place) for device in each for place in each]
    shards: list[Held] = [(device, device, device, str(device)) for device in each]
    arrays: list[Held] = [
        (device, place, device, f"{device}{_part(place)}") for device, place in every
    ]
    sums: list[Held] = [(device, place, None, f"{_SUM}{_part(place)}") for device, place in every]
    moved: dict[str, tuple[list[Held], list[Held]]] = {
        "all-reduce": (arrays, sums),
        "all-gather": (shards, [(device, place, place, str(place)) for device, place in every]),
        "reduce-scatter": (arrays, [block for block in sums if block[0] == block[1]]),
        "all-to-all": (
            arrays,
            [(device, place, place, f"{place}{_part(device)}") for device, place in every],
        ),
        "collective-permute": (
            shards,
            [(to, to, at, str(at)) for at in each for to in [(at + 1) % devices]],
        ),
    }
    before, after = moved[kind]
    return before, sorted(after)


def _part(place: int) -> str:
    return "abcdefgh"[place]


def chart(kind: str, devices: int) -> Spec:
    """Two grids, a row for each device: what it holds before, and after."""
    before, after = held(kind, devices)
    right = devices + 1.4  # of the first column of the second grid
    blocks = [*_blocks(before, devices, 0.0), *_blocks(after, devices, right)]
    signs = [{"mx": (devices + right) / 2, "my": devices / 2, "text": "→"}]
    span = {"nice": False, "zero": False}
    x = quantity("x", axis=None, scale=span | {"domain": [0, right + devices]})
    y = quantity("y", axis=None, scale=span | {"domain": [0, devices], "reverse": True})
    middle = {"x": x | {"field": "mx"}, "y": y | {"field": "my"}, "text": {"field": "text"}}
    ends = {"x2": {"field": "x2"}, "y2": {"field": "y2"}}
    layers = [
        layer(blocks, _BLOCK, x=x, y=y, **ends, color=as_is("color")),
        layer(blocks, _LABEL, **middle),
        layer(signs, {"type": "text", "fontSize": 15, **INK}, **middle),
    ]
    return layered(layers, _STEP * devices)


def _blocks(blocks: Sequence[Held], devices: int, left: float) -> Iterator[Row]:
    shades = colors(np.arange(devices), devices)
    for device, place, whose, label in blocks:
        yield {
            "x": left + place,
            "x2": left + place + 1,
            "y": device,
            "y2": device + 1,
            "mx": left + place + 0.5,
            "my": device + 0.5,
            "color": _SUM_COLOR if whose is None else shades[whose],
            "text": label,
        }


def show(kind: str, devices: int) -> None:
    """Draws one collective among the devices of an axis: its function, its picture, what it does."""
    drawn = min(devices, MOST_DEVICES)
    if kind not in COLLECTIVES or drawn < 2:
        return
    function, effect = COLLECTIVE_EFFECTS[kind]
    with st.container(width=2 * _WIDTH, gap="small", key="moved"):
        st.markdown(f"**{plain(kind_title(kind))}** {code(function)}")
        st.vega_lite_chart(chart(kind, drawn), key="moved:chart", alt=effect)
        st.caption(plain(effect), help=plain(devices_drawn(drawn, devices)))

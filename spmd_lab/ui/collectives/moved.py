"""What each collective does, as a picture: the blocks that devices hold before and after it."""

from collections.abc import Iterator, Sequence

import numpy as np
import streamlit as st

from spmd_core.experiment import COLLECTIVES
from spmd_core.words import kind_title
from spmd_lab.ui.charts.base import INK, Row, Spec, as_is, layer, layered, quantity
from spmd_lab.ui.charts.shades import colors
from spmd_lab.ui.collectives.words import COLLECTIVE_EFFECTS, devices_drawn
from spmd_lab.ui.markdown import code, plain

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
    """The letter of a part of an array."""
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

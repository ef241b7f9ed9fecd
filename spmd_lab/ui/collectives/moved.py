"""What each collective does, as a picture: the blocks that devices hold before and after it."""

from operator import attrgetter

import numpy as np
import streamlit as st

from spmd_core.base import between, bytes_text, count_text, numbered
from spmd_core.experiment import Experiment
from spmd_core.roofline import cases
from spmd_core.workloads import COLLECTIVES
from spmd_lab.ui.charts import glimpse
from spmd_lab.ui.charts.colors import colors
from spmd_lab.ui.markdown import code, plain

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


def points_of(experiment: Experiment) -> int:
    """Returns how many times a sweep measures."""
    return sum(len(case.sizes) for case in cases(experiment))


def plan_words(experiment: Experiment) -> str:
    """Returns what a sweep will measure: sizes of collectives over groups of axes, where each is
    measured over each group; else how many points.
    """
    asked = cases(experiment)
    low, high = min(case.sizes[0] for case in asked), max(case.sizes[-1] for case in asked)
    kinds, groups = ({*map(attrgetter(name), asked)} for name in ("kind", "axes"))
    numbers, ends = {len(case.sizes) for case in asked}, (bytes_text(low), bytes_text(high))
    if len(numbers) == 1 and kinds <= {*COLLECTIVES} and len(asked) == len(kinds) * len(groups):
        of = numbered(len(kinds), "collective") if len(kinds) > 1 else asked[0].kind
        over = f" over {len(groups)} groups of axes" * (len(groups) > 1)
        what = f"{numbered(max(numbers), 'size')} of {of}{over}, {between(*ends)}"
    else:
        what = f"{count_text(points_of(experiment))} points from {' to '.join(ends)}"
    return f"To measure on {experiment.target}: {what}."


MOST_DEVICES = 8  # in a picture; of more, as few as show the pattern
_FEW = 4
_SIDE = 40.0  # pixels of a block
_SUM, _SUM_COLOR = "Σ", "#d5d8de"
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


def picture(kind: str, devices: int) -> str:
    """Returns SVG of two grids, a row for each device: what it holds before, and after."""
    before, after = held(kind, devices)
    shades, after_at, middle = (
        colors(np.arange(devices), devices),
        devices + 1.4,
        devices * _SIDE / 2,
    )
    size = 15.0 if devices <= _FEW else 21.0  # a larger picture is drawn smaller
    parts = [glimpse.text((devices + 0.7) * _SIDE, middle + 16, 48.0, "→", "middle")]
    for left, blocks in ((0.0, before), (after_at, after)):
        for device, place, whose, label in blocks:
            x, y = (left + place) * _SIDE, device * _SIDE
            color = _SUM_COLOR if whose is None else shades[whose]
            parts.append(glimpse.rect(x, y, _SIDE, _SIDE, color))
            center = x + _SIDE / 2, y + _SIDE / 2 + size / 3
            parts.append(glimpse.text(*center, size, label, "middle", glimpse.ON_COLOR))
    return glimpse.drawing((after_at + devices) * _SIDE, devices * _SIDE, parts, True)


def show(kind: str, devices: int, groups: int = 1) -> None:
    """Draws one collective among the devices of an axis, of which the mesh has so many groups: its
    function, its picture, what it does.
    """
    drawn = devices if devices <= MOST_DEVICES else _FEW
    if kind not in COLLECTIVES or drawn < 2:
        return
    function, effect = COLLECTIVE_EFFECTS[kind]
    of = f"drawn for {drawn} of {devices} devices" * (drawn < devices)
    alike = f"one of {groups} groups" * (groups > 1)
    alike += f" of {devices}" * (groups > 1 and not of)
    small = ", ".join(filter(None, (of, alike)))
    st.markdown(
        f"{code(f'jax.lax.{function}')} :small[{plain(small)}]"
        if small
        else code(f"jax.lax.{function}")
    )
    st.html(glimpse.image(picture(kind, drawn), effect, "picture"))
    st.caption(plain(effect), help=plain(devices_drawn(drawn, devices)))

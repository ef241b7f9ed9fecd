"""The sizes of collectives on the screen: chosen of a list, or typed such as `100 MB`."""

from collections.abc import Sequence

import streamlit as st

from spmd_core.base import RequestError, bytes_text, read_bytes, refuse, shorten
from spmd_core.experiment import Experiment
from spmd_core.results import Point
from spmd_core.roofline import cases
from spmd_core.terms import counted
from spmd_core.workloads import LEAST_BYTES, MOST_BYTES
from spmd_lab.ui import choices
from spmd_lab.ui.markdown import plain

LARGER = tuple(2**power for power in (26, 28, 30, 32))  # offered beyond those of a sweep
_WIDE_PX = 120


def read_size(text: str) -> int:
    """Returns a size that was typed in bytes; RequestError where a sweep has none such."""
    size = read_bytes(text)
    if not LEAST_BYTES <= size <= MOST_BYTES:
        rule = f"is not {bytes_text(LEAST_BYTES)} to {bytes_text(MOST_BYTES)}"
        raise refuse(f"size {shorten(text, 40)}", rule, "use for example 64 MiB")
    return size


def wanted(experiment: Experiment) -> int:
    """Returns the size that is chosen, in bytes, where a sweep itself does not have it; else 0."""
    text = choices.now(choices.SIZE)
    if not text or text in {bytes_text(size) for case in cases(experiment) for size in case.sizes}:
        return 0
    try:
        return read_size(text)
    except RequestError:
        return 0


def choose(experiment: Experiment, points: Sequence[Point]) -> int:
    """Draws the sizes of points with a time: of measured ones those, of predicted ones larger ones
    and typed ones, too. Returns the one that is chosen, 0 where there is none.
    """
    sizes = sorted({each.bytes for each in counted(points)}, reverse=True)
    named = {bytes_text(each): each for each in sizes}
    if not named:
        return 0
    if any(each.time_s for each in points):
        return named[
            choices.one_of("Size", [*named], choices.SIZE, list_px=_WIDE_PX, is_named=True)
        ]
    typed = choices.now(choices.SIZE)
    size = 0
    try:
        size = read_size(typed) if typed else 0
    except RequestError as error:
        st.info(plain(str(error)), icon=":material/straighten:")
        choices.forget(choices.SIZE)
    more = [bytes_text(each) for each in reversed(LARGER) if each > sizes[0]]
    options = [*more, *named, *([typed] if size and typed not in (*more, *named) else [])]
    own = {each for case in cases(experiment) for each in case.sizes}
    first = next(text for text, each in named.items() if each in own)
    chosen = choices.one_of(
        "Size", options, choices.SIZE, list_px=_WIDE_PX, first=first, is_named=True
    )
    return named.get(chosen) or min(sizes, key=lambda each: abs(each - size))

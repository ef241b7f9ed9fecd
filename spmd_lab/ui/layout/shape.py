"""The fields of an array's shape and of what each of its dims is sharded over."""

import re
from contextlib import suppress

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import Layout, read_element
from spmd_lab.ui import choices, state
from spmd_lab.ui.charts.layout_words import holders_text, numbers_words
from spmd_lab.ui.inputs import axes_input
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.state import Form, Mesh


def element_field(shards: Layout) -> None:
    """Draw the field, and the answer below it; nothing for a scalar."""
    if not shards.shape:
        return
    middle = ", ".join(str(size // 2) for size in shards.shape)
    text = st.text_input(
        "Which devices hold element …",
        key=choices.ELEMENT,
        placeholder=f"such as {middle}",
        max_chars=80,
        bind="query-params",
        icon=":material/my_location:",
        help=f"{plain(numbers_words(shards))} Same color, same data: point at a cell to light each "
        "device that holds it.",
    )
    if not text:
        return
    try:
        st.markdown(plain(holders_text(shards, read_element(text, shards.shape))))
    except RequestError as error:
        st.error(plain(str(error)), icon=":material/error:")


def element(shards: Layout) -> tuple[int, ...] | None:
    """Returns the element of the field, which is drawn below the picture; None where there is none."""
    text = choices.now(choices.ELEMENT)
    with suppress(RequestError):
        return tuple(read_element(text, shards.shape)) if text and shards.shape else None
    return None


def shape_input(screen: str, mesh: Mesh) -> Form:
    """Shape (as text, rank 1 to 6) and axes of every dim of the workload `array`, as the fields
    `dims` and `sharding`.

    Where a link brought a spec as an override, it stays one: the field `overrides` instead of
    `sharding`.
    """
    draft = state.draft(screen)
    sizes = [str(size) for size in draft["dims"].values() if size is not None]
    key = state.seed(state.key(screen, "shape"), ", ".join(sizes))
    text = st.text_input(
        "Array shape",
        key=key,
        max_chars=120,
        placeholder="4, 8",
        help="One size for each dim, rank 1 to 6, for example 4, 8.",
    )
    dims = parse_shape(text or "")
    override = draft["overrides"].get("array")
    now = (
        draft["sharding"] if override is None else dict(zip(draft["dims"], override, strict=False))
    )
    is_shape = all(isinstance(size, int) for size in dims.values())
    # below a text that is no shape, what was chosen waits for the next one
    sharding = {dim: axes for dim, axes in now.items() if dim not in dims and not is_shape}
    for dim in dims:
        # not with its size: a widget whose label changes begins anew, and may lose what was chosen
        axes = axes_input(screen, f"sharding.{dim}", f"{dim} sharded over", now.get(dim), mesh)
        if axes is not None:
            sharding[dim] = axes
    return {"dims": dims} | (
        {"sharding": sharding}
        if override is None
        else {"overrides": {"array": [sharding.get(dim) for dim in dims]}}
    )


_BETWEEN = re.compile(r"(?<=[0-9])\s*[x×]\s*(?=-?[0-9])")  # 4x8, but not the x of `8, x, 32`


def parse_shape(text: str) -> dict[str, int | str | None]:
    """`4, 8` or `(4, 8)` as {"d0": 4, "d1": 8}; what is not a whole number stays text, for the
    experiment's rules to refuse.

    >>> parse_shape("(4, 8)")
    {'d0': 4, 'd1': 8}
    """
    parts = _BETWEEN.sub(",", text).strip(" ()[]").split(",")
    if parts and not parts[-1].strip():
        parts.pop()
    sizes = [part.strip().replace("_", "") for part in parts]
    return {
        f"d{position}": int(size)
        if size.removeprefix("-").isascii() and size.removeprefix("-").isdigit() and len(size) < 40
        else size
        for position, size in enumerate(sizes)
    } or {"d0": None}

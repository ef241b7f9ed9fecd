"""The fields of an array's shape and of what each of its dims is sharded over."""

import math
import re
from contextlib import suppress

import streamlit as st

from spmd_core.base import RequestError
from spmd_core.experiment import Layout, read_element
from spmd_core.fields import axes_of
from spmd_lab.ui import choices, mesh_fields, state
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


def offer_fit(screen: str) -> None:
    """Draws buttons that mend a dim which does not divide: of the mesh, where that was changed."""
    if not mesh_fields.offer_sizes(screen):
        offer_division(screen)


def offer_division(screen: str) -> None:
    """Draws buttons for a dim that does not divide: the next sizes that do, below and above, the
    largest axis that divides it, and another dim that divides over its axes.
    """
    draft = state.draft(screen)
    # a size that is none yet is refused, too
    mesh = {axis: size for axis, size in draft["mesh"] if size}
    sharding = draft["sharding"]
    taken = {axis for axes in sharding.values() for axis in axes_of(axes)}
    for dim, axes in sharding.items():
        size, here = draft["dims"].get(dim), axes_of(axes)
        if not isinstance(size, int) or not all(axis in mesh for axis in here):
            continue
        parts = math.prod(mesh[axis] for axis in here)
        if size % parts == 0:
            continue
        _offer_sizes(screen, dim, size, parts)
        free = [axis for axis in mesh if axis in here or axis not in taken]
        dividing = [axis for axis in free if mesh[axis] > 1 and size % mesh[axis] == 0]
        if best := max(dividing, key=mesh.__getitem__, default=None):
            st.button(
                plain(f"Shard {dim} over {best}={mesh[best]}, which divides {size}"),
                key="divide",
                icon=":material/near_me:",
                on_click=state.replace_draft,
                args=(screen, draft | {"sharding": sharding | {dim: best}}),
            )
        _offer_other_dim(screen, dim, parts)


def _offer_other_dim(screen: str, dim: str, parts: int) -> None:
    """Draws a button that moves the axes of a dim to the first unsharded one that divides over them."""
    draft = state.draft(screen)
    sharding = draft["sharding"]
    sizes = {each: size for each, size in draft["dims"].items() if isinstance(size, int)}
    fits = (
        each
        for each, size in sizes.items()
        if each != dim and not axes_of(sharding.get(each)) and size > 0 and size % parts == 0
    )
    if (other := next(fits, None)) is None:
        return
    over = " and ".join(axes_of(sharding[dim]))
    moved = {each: axes for each, axes in sharding.items() if each != dim}
    st.button(
        plain(f"Shard {other} over {over} instead: {sizes[other]:,} divides by {parts}"),
        key=f"other:{dim}",
        icon=":material/near_me:",
        on_click=state.replace_draft,
        args=(screen, draft | {"sharding": moved | {other: sharding[dim]}}),
    )


def _offer_sizes(screen: str, dim: str, size: int, parts: int) -> None:
    """Draws a button for the next size below and above that divides over `parts` devices."""
    draft, below = state.draft(screen), size // parts * parts
    with st.container(horizontal=True, gap="small", key=f"sizes:{dim}"):
        for each in (below, below + parts) if size > 0 else ():
            if each:
                st.button(
                    plain(f"Use {dim}={each:,}"),
                    key=f"size:{dim}:{each}",
                    icon=":material/straighten:",
                    on_click=state.replace_draft,
                    args=(screen, draft | {"dims": draft["dims"] | {dim: each}}),
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

"""The fields of a mesh: names and sizes of its axes. Sharding and specs follow what is renamed or
removed.
"""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from spmd_core.experiment import MAX_MESH_AXES, axes_left
from ui import state

_NEW_AXES = ("x", "y", "z", "w", "u", "v")


def mesh_input(screen: str) -> list[list[Any]]:
    """Axis names and sizes (None where a field is empty), 1 to 4 axes, more where a link brought
    more.

    The draft's specs follow: a renamed axis is renamed there, a removed one leaves them.
    """
    draft = state.draft(screen)
    old = [list(axis) for axis in draft["mesh"]]
    most = max(4, min(len(old), MAX_MESH_AXES))
    key = state.seed(state.key(screen, "mesh.count"), len(old))
    count = st.segmented_control("Mesh axes", range(1, most + 1), key=key, required=True) or len(
        old
    )
    st.session_state.setdefault(state.key(screen, "mesh.size.0"), old[0][1])
    mesh = []
    for position in range(count):
        name, size = axis_at(screen, position, old, mesh, _NEW_AXES)
        left, right = st.columns(2, gap="small")
        labels: Any = "visible" if position == 0 else "collapsed"  # of the first row
        name_key = state.seed(state.key(screen, f"mesh.name.{position}"), name)
        size_key = state.seed(state.key(screen, f"mesh.size.{position}"), size)
        chosen = left.text_input(
            f"Axis {position + 1} name", key=name_key, max_chars=64, label_visibility=labels
        )
        devices = right.number_input(
            f"Axis {position + 1} size",
            value=None,
            step=1,
            key=size_key,
            label_visibility=labels,
        )
        mesh.append([(chosen or "").strip(), devices])
    if len(mesh) < len(old):
        remove_axes(screen, old, len(mesh))
    _follow(screen, draft, [name for name, _ in old], [name for name, _ in mesh])
    return mesh


def _follow(screen: str, draft: dict[str, Any], old: list[str], new: list[str]) -> None:
    """Make the draft's specs follow the axes. While two axes have one name, or one has none, the
    specs keep the names of before: they could not be parted again.
    """
    key = state.seed(state.key(screen, "mesh.names"), old)
    used = st.session_state[key]
    if len(new) < len(used):
        keep_axes(draft, used[: len(new)])
    used = [*used[: len(new)], *new[len(used) :]]
    if all(new) and len(set(new)) == len(new):
        rename_axes(draft, {was: now for was, now in zip(used, new, strict=True) if was != now})
        used = new
    st.session_state[key] = used


def axis_at(
    screen: str, position: int, old: list[list[Any]], mesh: list[list[Any]], names: Sequence[str]
) -> tuple[str, Any]:
    """Name and size in an axis's row: the draft's, the one removed there, or a new one of size 1."""
    if position < len(old):
        return old[position][0], old[position][1]
    taken = [axis[0] for axis in old + mesh]
    removed = _removed(screen).get(position)
    if removed is not None and removed[0] not in taken:
        return removed
    spare = (f"a{number}" for number in range(len(taken) + 1))
    return next(name for name in (*names, *spare) if name not in taken), 1


def remove_axes(screen: str, old: list[list[Any]], count: int) -> None:
    """Remember the axes from `count` on, so that they come back as they were."""
    _removed(screen).update({place: tuple(old[place]) for place in range(count, len(old))})


def _removed(screen: str) -> dict[int, tuple[str, Any]]:
    """Position -> the axis that was removed there, until another form is opened."""
    return st.session_state[state.seed(state.key(screen, "mesh.removed"), {})]


def keep_axes(draft: dict[str, Any], left: Sequence[str]) -> None:
    """Take all other mesh axes out of the draft's sharding and overrides, in place."""
    table = {dim: axes_left(axes, left) for dim, axes in draft["sharding"].items()}
    draft["sharding"] = {dim: axes for dim, axes in table.items() if axes is not None}
    draft["overrides"] = {
        name: [axes_left(axes, left) for axes in spec] for name, spec in draft["overrides"].items()
    }


def rename_axes(draft: dict[str, Any], new_names: dict[str, str]) -> None:
    """Rename mesh axes in the draft's sharding and overrides, in place."""

    def renamed(entry: Any) -> Any:
        return (
            [renamed(axis) for axis in entry]
            if isinstance(entry, list)
            else new_names.get(entry, entry)
        )

    draft["sharding"] = {dim: renamed(axes) for dim, axes in draft["sharding"].items()}
    draft["overrides"] = {
        name: [renamed(axes) for axes in spec] for name, spec in draft["overrides"].items()
    }

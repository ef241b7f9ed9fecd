"""The fields of a mesh: names and sizes of its axes. Sharding and specs follow what is renamed or
removed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from spmd_core.base import RequestError
from spmd_core.experiment import MAX_MESH_AXES, axes_left, check_count, parse_experiment
from spmd_core.fields import axes_of
from spmd_lab.ui import state
from spmd_lab.ui.markdown import plain
from spmd_lab.ui.state import Form, Mesh

Visible = Literal["visible", "collapsed"]
# place, label, key, name so far, whether the label is shown -> name
NameField = Callable[[DeltaGenerator, str, str, str, Visible], str]
_TRIED = 64  # sizes of an axis that does not fit
_NEW_AXES = ("x", "y", "z", "w", "u", "v")


def mesh_input(screen: str) -> Mesh:
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
    if count != len(old):
        _keep_devices(screen, [size for _, size in old], count)
    mesh = axis_rows(screen, old, count, _NEW_AXES, ("mesh.name", "mesh.size"), _typed_name)
    _follow(screen, draft, [name for name, _ in old], [name for name, _ in mesh])
    return mesh


def _keep_devices(screen: str, sizes: Sequence[int | None], count: int) -> None:
    """Gives the size of a removed axis to the first one, and to an added one a part of the largest."""
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return
    left = [size or 1 for size in sizes[:count]]
    left[0] *= math.prod(size or 1 for size in sizes[count:])
    for place in range(len(left), count):
        _, before = _removed(screen).get(place, ("", 2))
        largest = max(left)
        divides = isinstance(before, int) and before > 0 and largest % before == 0
        part = before if divides and before < largest else 1
        left[left.index(largest)] = largest // part
        left.append(part)
    for place, size in enumerate(left):
        st.session_state[state.key(screen, f"mesh.size.{place}")] = size


def _typed_name(place: DeltaGenerator, label: str, key: str, _: str, visible: Visible) -> str:
    name = place.text_input(label, key=key, max_chars=64, label_visibility=visible)
    return (name or "").strip()


def axis_rows(
    screen: str,
    old: Mesh,
    count: int,
    new_names: Sequence[str],
    fields: tuple[str, str],
    name_field: NameField,
) -> Mesh:
    """A row for each of `count` axes: its name, by `name_field`, and its size (None: empty).
    `fields` names the two fields of a row; an axis that is added has the first of `new_names` that
    is free.
    """
    mesh: Mesh = []
    for position in range(count):
        name, size = _axis_at(screen, position, old, mesh, new_names)
        left, right = st.columns(2, gap="small")
        visible: Visible = "visible" if position == 0 else "collapsed"  # of the first row
        name_key, size_key = (state.key(screen, f"{field}.{position}") for field in fields)
        label = f"Axis {position + 1} name"
        chosen = name_field(left, label, state.seed(name_key, name), name, visible)
        length = right.number_input(
            f"Axis {position + 1} size",
            value=None,
            step=1,
            key=state.seed(size_key, size),
            label_visibility=visible,
        )
        mesh.append([chosen, length])
    if len(mesh) < len(old):
        _removed(screen).update({place: tuple(old[place]) for place in range(len(mesh), len(old))})
    return mesh


def _follow(screen: str, draft: Form, old: list[str], new: list[str]) -> None:
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


def _axis_at(
    screen: str, position: int, old: Mesh, mesh: Mesh, names: Sequence[str]
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


def _removed(screen: str) -> dict[int, tuple[str, Any]]:
    return st.session_state[state.seed(state.key(screen, "mesh.removed"), {})]


def keep_axes(draft: Form, left: Sequence[str]) -> None:
    """Take all other mesh axes out of the draft's sharding and overrides, in place."""
    table = {dim: axes_left(axes, left) for dim, axes in draft["sharding"].items()}
    draft["sharding"] = {dim: axes for dim, axes in table.items() if axes is not None}
    draft["overrides"] = {
        name: [axes_left(axes, left) for axes in spec] for name, spec in draft["overrides"].items()
    }


def rename_axes(draft: Form, new_names: dict[str, str]) -> None:
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


def offer_fit(screen: str) -> None:
    """Draws buttons that mend a dim which does not divide: of the mesh, where that was changed."""
    if not offer_sizes(screen, least=2):
        _offer_division(screen)


def offer_sizes(screen: str, least: int = 1, of_all: bool = False) -> bool:
    """Draws buttons for the next sizes of an axis that was changed, below and above, which fit the
    dims and the target; False where no axis was, or none fits. `of_all`: of any axis, where the mesh
    has more devices than the target.
    """
    offered = [each for each in _sizes(screen, of_all) if each[1] >= least]
    with st.container(horizontal=True, gap="small", key=f"axes:{screen}"):
        for axis, size, form in offered:
            _offer(
                screen, f"Use {axis}={size}", f"axis:{axis}:{size}", form, ":material/straighten:"
            )
    return bool(offered)


def _offer(screen: str, label: str, key: str, form: Form, icon: str) -> None:
    use = state.replace_draft
    st.button(plain(label), key=f"fit:{key}", icon=icon, on_click=use, args=(screen, form))


def _sizes(screen: str, of_all: bool) -> Iterator[tuple[str, int, Form]]:
    draft, before = state.draft(screen), dict(state.experiment(screen).mesh)
    for at, (axis, size) in enumerate(draft["mesh"]):
        is_asked = of_all or before.get(axis) != size
        if not isinstance(size, int) or size < 1 or not is_asked:
            continue
        for sizes in (range(size - 1, max(0, size - _TRIED), -1), range(size + 1, 2 * size + 1)):
            for each in sizes[:_TRIED]:
                mesh = [[*axis] for axis in draft["mesh"]]
                mesh[at][1] = each
                if _fits(form := draft | {"mesh": mesh}):
                    yield axis, each, form
                    break


def _offer_division(screen: str) -> None:
    """Draws buttons for a dim that does not divide: the next sizes that do, below and above, the
    largest axis that divides it, and another dim that divides over its axes.
    """
    draft = state.draft(screen)
    # a size that is none yet is refused, too
    mesh = {axis: size for axis, size in draft["mesh"] if size}
    for dim, axes in draft["sharding"].items():
        size, here = draft["dims"].get(dim), axes_of(axes)
        if not isinstance(size, int) or not all(axis in mesh for axis in here):
            continue
        parts = math.prod(mesh[axis] for axis in here)
        if size % parts == 0:
            continue
        with st.container(horizontal=True, gap="small", key=f"sizes:{dim}"):
            for each in (size // parts * parts, size // parts * parts + parts) if size > 0 else ():
                form = draft | {"dims": draft["dims"] | {dim: each}}
                if each and _fits(form):
                    key, icon = f"size:{dim}:{each}", ":material/straighten:"
                    _offer(screen, f"Use {dim}={each:,}", key, form, icon)
        for key, label, form in _other_axes(draft, mesh, dim, parts):
            if _fits(form):
                _offer(screen, label, key, form, ":material/near_me:")


def _other_axes(
    draft: Form, mesh: dict[str, int], dim: str, parts: int
) -> Iterator[tuple[str, str, Form]]:
    """(key, label, form) of another axis for a dim, and of another dim for its axes."""
    sharding, size = draft["sharding"], draft["dims"][dim]
    here = axes_of(sharding[dim])
    taken = {axis for axes in sharding.values() for axis in axes_of(axes)}
    free = [axis for axis in mesh if axis in here or axis not in taken]
    dividing = [axis for axis in free if mesh[axis] > 1 and size % mesh[axis] == 0]
    if best := max(dividing, key=mesh.__getitem__, default=None):
        label = f"Shard {dim} over {best}={mesh[best]}, which divides {size}"
        yield f"divide:{dim}", label, draft | {"sharding": sharding | {dim: best}}
    sizes = {each: size for each, size in draft["dims"].items() if isinstance(size, int)}
    fits = (
        each
        for each, size in sizes.items()
        if each != dim and not axes_of(sharding.get(each)) and size > 0 and size % parts == 0
    )
    if other := next(fits, None):
        moved = {each: axes for each, axes in sharding.items() if each != dim}
        over = " and ".join(here)
        label = f"Shard {other} over {over} instead: {sizes[other]:,} divides by {parts}"
        yield f"other:{dim}", label, draft | {"sharding": moved | {other: sharding[dim]}}


def _fits(form: Form) -> bool:
    try:
        experiment = parse_experiment(form)
        check_count(experiment.mesh, experiment.place)
    except RequestError:
        return False
    return True

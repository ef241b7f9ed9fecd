"""Which devices take part in a collective: from a result, or from its compiled program's text."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from spmd_core.pictures.arrows.flows import PERMUTE, SEND, SEND_ALL, Group
from spmd_core.pictures.arrows.placed import Placed
from spmd_core.program import (
    BETWEEN_SLICES,
    HloError,
    axes_of,
    counterparts,
    groups_of,
    parse_module,
    sites,
)
from spmd_core.results import Collective

Groups = tuple[Group, ...]


def kind_of_flow(collective: Collective) -> str:
    """The algorithm of its bytes: its kind, and of a transfer between slices what is sent."""
    if collective.kind == SEND and collective.asked not in ("all-reduce", None):
        return SEND_ALL
    return collective.kind


def groups_in_mesh(
    collective: Collective, placed: Placed, text: str | None = None
) -> Groups | None:
    """Groups by position in `mesh.devices` (of a permute, pairs of source and target).

    A result names devices by JAX's numbers, up to 64 of them; beyond, its program's `text` does,
    whose order is the mesh's. None if neither has them, or if the text has other axes than the
    result.
    """
    if collective.groups is not None:
        if any(number not in placed.positions for group in collective.groups for number in group):
            return None
        return _on_every_slice(
            tuple(
                tuple(placed.positions[number] for number in group) for group in collective.groups
            ),
            placed,
        )
    if collective.kind == BETWEEN_SLICES:
        return _tuples(counterparts(placed.places or ()))
    groups = (
        _of_text(text, len(placed.numbers), _slices(placed)).get(collective.name or "")
        if text
        else None
    )
    if groups is None:
        return None
    axes = axes_of(np.array(groups, np.int64), placed.mesh)
    return _on_every_slice(groups, placed) if axes == collective.axes else None


def _slices(placed: Placed) -> int:
    """Of TPUs, whose programs talk between slices by other means; GPUs have one program for all."""
    topology = placed.topology
    return topology.slices if topology and not topology.chip.is_gpu else 1


def _on_every_slice(groups: Groups, placed: Placed) -> Groups:
    """The groups of one slice, repeated on all slices: the compiled program names only the devices
    of the first slice.
    """
    places = placed.places or ()
    if _slices(placed) < 2 or len({places[at][4] for group in groups for at in group}) != 1:
        return groups
    at_place = {place: at for at, place in enumerate(places)}
    return tuple(
        tuple(at_place[(*places[at][:4], number)] for at in group)
        for number in range(_slices(placed))
        for group in groups
    )


@lru_cache(maxsize=8)
def _of_text(text: str, device_count: int, slices: int) -> Mapping[str, Groups]:
    """Instruction -> groups; nothing of a program that cannot be read or is for other devices."""
    try:
        module = parse_module(text)
        count = module.device_count
        if count not in (device_count, device_count // slices):
            return {}
        return {
            site.start.outer.name: _tuples(groups_of(site.start.inner, count))
            for site in sites(module)
            if site.start.kind != BETWEEN_SLICES
        }
    except HloError:
        return {}


def _tuples(groups: np.ndarray) -> Groups:
    return tuple(tuple(group) for group in groups.tolist())


def follows_axes(groups: Groups, collective: Collective, placed: Placed) -> bool:
    """Whether the groups are all that vary along the collective's mesh axes; a permute's pairs may
    be any along them. False: its devices have to be listed.
    """
    sizes = dict(placed.mesh)
    if not collective.axes or not set(collective.axes) <= set(sizes):
        return False
    if collective.kind == PERMUTE:
        return True
    count = int(np.prod([sizes[axis] for axis in collective.axes]))
    return all(len(set(group)) == count for group in groups)

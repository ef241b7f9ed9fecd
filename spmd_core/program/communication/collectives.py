"""The collectives of a compiled program, as every command and screen lists them."""

from collections.abc import Mapping

import numpy as np

from spmd_core.machine import Coordinates
from spmd_core.program.communication.generic import generic
from spmd_core.program.communication.lines import File, op_name, source
from spmd_core.program.communication.parsed import Mesh, ParsedCollective, read
from spmd_core.program.communication.parts import names_by_dims, parts_of, parts_words
from spmd_core.program.communication.reasons import Reasons
from spmd_core.program.hlo.collective_ops import sites
from spmd_core.program.hlo.module import Module
from spmd_core.results import Collective, Part

MOST_LISTED = 64  # devices listed by number; beyond, only mesh axes are given


def read_collectives(
    module: Module,
    mesh: Mesh,
    *,
    file: File = "",
    positions: tuple[int, ...] | None = None,
    devices: tuple[int, ...] = (),
    places: tuple[Coordinates, ...] = (),
    reasons: Reasons | None = None,
) -> tuple[Collective, ...]:
    """Every collective of a program, in the order in which it is written.

    `file` is the name of the program text that `source` quotes lines of, or the names of several.
    `positions[i]` is the mesh position of the program's device i; `devices[p]` the JAX id of the
    device at mesh position p (p itself where left out), and `places[p]` its coordinates, which
    include its slice. HloError where the groups of one cannot be read.
    """
    named = _names(module, reasons)
    collectives = []
    for site in sites(module):
        name = op_name(site, module, file)
        line = source(site, module, file)
        one = read(site, module, mesh, positions, places, name, line)
        parts = parts_of(site, module, named)
        groups = _ids(one, module.device_count, positions, devices)
        why = reasons.why(one) if reasons else generic(one)
        reason = why + parts_words(parts) if why else None
        collectives.append(_collective(one, groups, parts, reason, (name, line)))
    return tuple(collectives)


def _collective(
    one: ParsedCollective,
    groups: tuple[tuple[int, ...], ...] | None,
    parts: tuple[Part, ...],
    reason: str | None,
    written: tuple[str | None, str | None],
) -> Collective:
    """A collective as it is listed; `written`: the name and the line that the program gives it."""
    start, count = one.site.start, one.site.count
    return Collective(
        kind=start.kind,
        asked=one.asked,
        axes=one.axes,
        groups=groups,
        bytes=start.bytes,
        count=count,
        bytes_total=None if count is None else start.bytes * count,
        op=written[0],
        source=written[1],
        name=start.outer.name,
        group_size=_group_size(one),
        asynchronous=start.asynchronous,
        parts=parts,
        reason=reason,
    )


def _ids(
    collective: ParsedCollective,
    device_count: int,
    positions: tuple[int, ...] | None,
    devices: tuple[int, ...],
) -> tuple[tuple[int, ...], ...] | None:
    """Groups by JAX's numbers of the devices; None above 64 devices, or where unknown."""
    if device_count > MOST_LISTED or not collective.groups.size:
        return None
    groups = collective.groups if positions is None else np.asarray(positions)[collective.groups]
    if devices:
        groups = np.asarray(devices)[groups]
    # (a shorter group is filled up with its first member)
    return tuple(
        tuple(dict.fromkeys(group))
        if collective.site.start.kind != "collective-permute"
        else tuple(group)
        for group in groups.tolist()
    )


def _group_size(collective: ParsedCollective) -> int | None:
    if collective.kind == "collective-permute" or not collective.groups.size:
        return None
    return collective.groups.shape[1]


def _names(module: Module, reasons: Reasons | None) -> Mapping[tuple[int, ...], str]:
    """Names of the program's results (of what they update) by their dims on a device."""
    if reasons is None:
        return {}
    what, root = reasons.experiment.what, module.entry.root
    updated = dict(what.training.carried)
    names = [updated.get(each.name, each.name) for each in what.results]
    shapes = [array.dims for array in root.arrays]
    return names_by_dims(shapes, names) if len(shapes) == len(names) else {}

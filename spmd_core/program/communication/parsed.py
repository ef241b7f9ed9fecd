"""A collective as parsed from a compiled program."""

from dataclasses import dataclass

import numpy as np

from spmd_core.base import by_key
from spmd_core.machine import Coordinates
from spmd_core.program.hlo.collective_ops import (
    BETWEEN_SLICES,
    Site,
    groups_of,
    reduction_of,
    transfer_of,
)
from spmd_core.program.hlo.module import Module
from spmd_core.program.hlo.replica_groups import axes_of
from spmd_core.program.hlo.requested import asked, ring_of, ring_size

Mesh = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class ParsedCollective:
    """A collective of a compiled program: its groups, mesh axes and requested kind.

    `groups`, int64 [groups, members], are positions in the program's device order (of a permute,
    pairs); `op_name` is the name that the program gives it; `ring` counts the devices of each ring
    that a collective matmul passes shards along, 0 for any other; `source` names its line.
    """

    site: Site
    groups: np.ndarray
    axes: tuple[str, ...]
    asked: str | None
    op_name: str | None
    reduction: str | None
    ring: int = 0
    source: str | None = None

    @property
    def kind(self) -> str:
        """As compiled."""
        return self.site.start.kind

    @property
    def wanted(self) -> str:
        """The kind that the program requested."""
        return self.asked or self.kind


def read(
    site: Site,
    module: Module,
    mesh: Mesh,
    positions: tuple[int, ...] | None,
    places: tuple[Coordinates, ...],
    op_name: str | None,
    source: str | None = None,
    mapped: tuple[str, ...] | None = None,
) -> ParsedCollective:
    """A collective by its text; HloError where its groups cannot be read. `mapped`: the axes over
    which the program may call it; None for all.
    """
    start, around = site.start, site.computation
    if start.kind == BETWEEN_SLICES:
        groups = counterparts(places)
        axes = axes_of(groups, mesh, positions) if groups.size and mesh else ()
        transfer = transfer_of(start.outer) or None
        return ParsedCollective(site, groups, axes, transfer, op_name, "add", 0, source)
    groups = groups_of(start.inner, module.device_count)
    axes = axes_of(groups, mesh, positions)
    may_be_called = mapped is None or {*axes} <= {*mapped}
    wanted = asked(module, start, around, groups, op_name, may_be_called)
    ring = 0
    if start.kind == "collective-permute" and ring_of(module, start, around, groups, op_name):
        ring = ring_size(groups)
    return ParsedCollective(
        site, groups, axes, wanted, op_name, reduction_of(module, start), ring, source
    )


def counterparts(places: tuple[Coordinates, ...]) -> np.ndarray:
    """Groups of devices at the same position of every slice, int64 [places, slices].

    A transfer between slices does not name its partners, but runs between such devices. Empty where
    `places`, the coordinates by position, are unknown or all in one slice.
    """
    same = by_key((place[:-1], position) for position, place in enumerate(places))
    sizes = {len(group) for group in same.values()}
    if len(sizes) != 1 or sizes == {1}:
        return np.empty((0, 0), np.int64)
    return np.array(list(same.values()), np.int64)

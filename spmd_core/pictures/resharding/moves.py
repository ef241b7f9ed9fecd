"""Resharding an array: the collectives from one sharding to another, their mesh axes and bytes.

Axis by axis, as the SPMD partitioner proceeds: an axis that shards another dim afterwards is an
all-to-all; one that shards none, an all-gather; one that is new keeps a slice, which sends nothing.
Where only the order of the shards among the devices changes, they move by a collective-permute.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from spmd_core.base import by_key, refuse
from spmd_core.experiment import Layout, layout
from spmd_core.fields import Axes, Mesh, Spec
from spmd_core.roofline import Duration, TimeModel, Unknown

MOST_DEVICES = 2**14  # checked one by one
SLICE = "slice"  # each device keeps a part of what it holds


@dataclass(frozen=True, slots=True)
class Move:
    """One step: a collective over mesh axes, or a slice, which sends nothing.

    `nbytes` per device, of the larger of operand and result. `dims` are the dims of the array that
    it concerns, by number: what was sharded, then what is. `pairs` are positions of source and
    target of a permute. The caller that knows the array's name fills in `array`.
    """

    kind: str
    axes: Axes
    nbytes: int
    dims: tuple[int, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    array: str = ""

    @property
    def sends(self) -> bool:
        """Whether anything leaves a device."""
        return self.kind != SLICE


def time_of(move: Move, mesh: Mesh, times: TimeModel) -> Duration | Unknown:
    """How long a step that sends something takes on a target."""
    return times.collective(move.kind, mesh, move.axes, move.nbytes, move.pairs)


@lru_cache(maxsize=2048)
def reshard(
    mesh: Mesh, shape: tuple[int, ...], before: Spec, after: Spec, item_bytes: int
) -> tuple[Move, ...]:
    """The steps from one spec to another, each with an entry for every dim; none if every device
    already holds its new shard.

    RequestError if a spec breaks a rule, or the mesh is too large to check each device.
    """
    check_size(mesh, MOST_DEVICES)
    old, new = layout(mesh, shape, before), layout(mesh, shape, after)
    if (old.starts == new.starts).all() and old.parts == new.parts:
        return ()
    if all(more % few == 0 for more, few in zip(new.parts, old.parts, strict=True)):
        return tuple(_smaller(old, new, item_bytes))
    steps = _Steps(mesh, shape, before, after, item_bytes)
    steps.slice()
    steps.order()
    steps.exchange()
    steps.order()
    steps.gather()
    return tuple(steps.moves)


def check_size(mesh: Mesh, most: int) -> None:
    """RequestError where a mesh has more devices than are checked one by one."""
    devices = math.prod(size for _, size in mesh)
    if devices > most:
        raise refuse(
            f"mesh of {devices:,} devices",
            "is too large to work out what moves",
            f"use at most {most:,} devices",
        )


def _smaller(old: Layout, new: Layout, item_bytes: int) -> Iterator[Move]:
    """Moves where every new shard is part of an old one: it is sliced off, and sent if another
    device has it.
    """
    pairs = _pairs(old, new)
    nbytes = math.prod(new.shard_shape) * item_bytes
    if old.parts != new.parts:
        yield Move(SLICE, _moving(old, new), nbytes, _changed(old, new))
    if pairs:
        yield Move("collective-permute", _moving(old, new), nbytes, _changed(old, new), pairs)


class _Steps:
    """Builds moves axis by axis: `now` is the spec after the `moves` so far."""

    def __init__(
        self, mesh: Mesh, shape: tuple[int, ...], before: Spec, after: Spec, item_bytes: int
    ):
        self.mesh, self.shape, self.item_bytes = mesh, shape, item_bytes
        self.sizes = dict(mesh)
        self.now, self.after = before, after
        self.wanted = _dims(after)
        self.moves: list[Move] = []

    @property
    def nbytes(self) -> int:
        """Bytes of a shard."""
        return (
            math.prod(self.shape)
            * self.item_bytes
            // math.prod(self.sizes[axis] for axis in _dims(self.now))
        )

    def _add(self, kind: str, axes: Axes, nbytes: int, dims: tuple[int, ...]) -> None:
        if long := tuple(axis for axis in axes if self.sizes[axis] > 1):
            self.moves.append(Move(kind, long, nbytes, dims))

    def slice(self) -> None:
        """Axes over which it is replicated and should not be."""
        new = tuple(axis for axis in self.wanted if axis not in _dims(self.now))
        self.now = tuple(
            axes + tuple(axis for axis in new if self.wanted[axis] == dim)
            for dim, axes in enumerate(self.now)
        )
        self._add(SLICE, new, self.nbytes, tuple(dict.fromkeys(self.wanted[axis] for axis in new)))

    def exchange(self) -> None:
        """Axes that should shard another dim."""
        held = _dims(self.now)
        ways = dict.fromkeys(
            (dim, self.wanted[axis])
            for axis, dim in held.items()
            if self.wanted.get(axis, dim) != dim
        )
        for source, target in ways:
            axes = tuple(
                axis
                for axis, dim in held.items()
                if dim == source and self.wanted.get(axis) == target
            )
            self._add("all-to-all", axes, self.nbytes, (source, target))
            now = [tuple(each for each in dim if each not in axes) for dim in self.now]
            now[target] += axes
            self.now = tuple(now)

    def order(self) -> None:
        """Makes the axis that leaves a dim next the minor one: otherwise the rest of the shard has
        gaps.
        """
        sorted_ = tuple(
            (*(axis for axis in wish if axis in axes), *(axis for axis in axes if axis not in wish))
            for wish, axes in zip(self.after, self.now, strict=True)
        )
        old, new = (layout(self.mesh, self.shape, spec) for spec in (self.now, sorted_))
        if pairs := _pairs(old, new):
            self.moves.append(
                Move(
                    "collective-permute", _moving(old, new), self.nbytes, _changed(old, new), pairs
                )
            )
        self.now = sorted_

    def gather(self) -> None:
        """Axes that should shard nothing, dim by dim."""
        for dim, axes in enumerate(self.now):
            lost = tuple(axis for axis in axes if axis not in self.wanted)
            left = tuple(axis for axis in axes if axis in self.wanted)
            self.now = (*self.now[:dim], left, *self.now[dim + 1 :])
            self._add("all-gather", lost, self.nbytes, (dim,))


def _dims(spec: Spec) -> dict[str, int]:
    return {axis: dim for dim, axes in enumerate(spec) for axis in axes}


def _changed(old: Layout, new: Layout) -> tuple[int, ...]:
    return tuple(
        dim
        for dim, (axes, others) in enumerate(zip(old.spec, new.spec, strict=True))
        if axes != others
    )


def _moving(old: Layout, new: Layout) -> Axes:
    axes = {axis for dim in _changed(old, new) for axis in (*old.spec[dim], *new.spec[dim])}
    return tuple(name for name, size in old.mesh if size > 1 and name in axes)


def _pairs(old: Layout, new: Layout) -> tuple[tuple[int, int], ...]:
    """(source, target) positions where each device gets its new shard from one that holds it.

    A device that already holds its shard keeps it; of several other holders, each sends once.
    """
    strides = [math.prod(old.parts[dim + 1 :]) for dim in range(len(old.parts))]
    within = new.starts // np.asarray(old.shard_shape, np.int64) @ np.asarray(strides, np.int64)
    holders = by_key((shard, device) for device, shard in enumerate(old.shard_of.tolist()))
    moved = []
    for device, shard in enumerate(within.tolist()):
        if device in holders[shard]:
            holders[shard].remove(device)
        else:
            moved.append((device, shard))
    return tuple((holders[shard].pop(0), device) for device, shard in moved)


def missing_bytes(
    mesh: Mesh, shape: tuple[int, ...], before: Spec, after: Spec, item_bytes: int
) -> int:
    """The most bytes of a new shard that a device lacks: a lower bound for any resharding."""
    old, new = layout(mesh, shape, before), layout(mesh, shape, after)
    common = np.minimum(old.stops, new.stops) - np.maximum(old.starts, new.starts)
    held = np.prod(np.maximum(common, 0), axis=1)
    return int((math.prod(new.shard_shape) - held).max()) * item_bytes

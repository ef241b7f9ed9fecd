"""The rule that resizes a mesh to another topology, shared by links, screens and sweeps.

A mesh fills its topology: its sizes multiply to the devices of all slices. On another topology

1. **One axis takes the change.** Of a decoder `fsdp`, or `data` where there is no `fsdp`, or a new
   `fsdp` where there is neither; of another workload the axis that shards the batch, or the first.
2. **The other axes are unchanged.** Where the devices of one slice do not divide over them, each
   becomes its greatest common divisor with the devices that are left, the last axis first: the
   innermost axes shard one layer's matrices, and change last. `Resized.changed` lists the changed
   ones.
3. **Slices are outermost.** A mesh that already spans several slices keeps them on its first axis,
   if that divides by their number (and, of a decoder, is `data` or `fsdp`); else they are on `data`
   of a decoder, or on the axis that takes the change, which is then the first. A decoder's `data`
   of size 1 is left out.

A mesh that fills as many slices as before is unchanged, and one that fills NVLink domains, whose
number its first axis divides by: published runs shard parameters over all of them. There is always an answer, if only one in
which every other axis is 1. Links and screens use it and report the change. A sweep varies one
thing: if rule 2 changed an axis, its point is refused and the rule's mesh is suggested.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spmd_core.base import mesh_text
from spmd_core.experiment.experiment import Experiment
from spmd_core.fields import Axes, Mesh, axes_json, axes_of
from spmd_core.machine import Topology, get_topology
from spmd_core.workloads import named_axes


@dataclass(frozen=True, slots=True)
class Resized:
    """A mesh that fills a topology, and which other axes changed besides the one that takes the
    change.
    """

    mesh: Mesh
    takes: str
    others: Mesh = ()  # the other axes, as long in one slice as they were
    changed: tuple[str, ...] = ()  # those of them that changed

    @property
    def text(self) -> str:
        """The mesh as a user writes it, e.g. `fsdp=16,tensor=4`."""
        return mesh_text(self.mesh, ",")


def taking_axis(workload: str, mesh: Sequence[Sequence[Any]], batch: Axes = ()) -> str:
    """The mesh axis that takes the change, by rule 1; `batch` names the axes that shard the batch."""
    names = [name for name, _ in mesh]
    if named_axes(workload):
        return next((name for name in ("fsdp", "data") if name in names), "fsdp")
    return next((name for name in batch if name in names), names[0])


def resized(
    mesh: Sequence[Sequence[Any]],
    new: Topology,
    *,
    workload: str,
    batch: Axes = (),
    slices: int | None = None,
) -> Resized:
    """The mesh that fills `new`, by the rule above.

    `slices` is the number that the mesh spans, by default that of `new`.
    """
    is_planned = bool(named_axes(workload))
    before = new.slices if slices is None else slices
    takes = taking_axis(workload, mesh, batch)
    sizes: dict[str, int] = {name: int(size) for name, size in mesh}
    first = next(iter(sizes), takes)
    may_hold_slices = not is_planned or first in ("data", "fsdp")
    spans = new.chip.is_gpu and may_hold_slices and sizes.get(first, 1) % new.slices == 0
    if math.prod(sizes.values()) == new.devices and (before == new.slices or spans):
        return Resized(tuple(sizes.items()), takes)
    outer = "data" if is_planned else takes
    if before > 1 and may_hold_slices and sizes.get(first, 1) % before == 0:
        sizes[first] //= before
        outer = first
    inside = _filled(
        {takes: 1, **sizes} if takes not in sizes else sizes, takes, new.devices // new.slices
    )
    others = tuple((name, size) for name, size in sizes.items() if name != takes and size > 1)
    changed = tuple(name for name, size in others if inside[name] != size)
    if new.slices > 1:
        inside = {outer: inside.pop(outer, 1) * new.slices, **inside}
    if is_planned and inside.get("data") == 1 and len(inside) > 1:
        del inside["data"]
    return Resized(tuple(inside.items()), takes, others, changed)


def _filled(sizes: Mapping[str, int], takes: str, devices: int) -> dict[str, int]:
    """The axes over one slice: `takes` gets the devices that the others leave; the others shrink
    only if necessary.
    """
    left, kept = devices, dict(sizes)
    if devices % math.prod(size for name, size in sizes.items() if name != takes):
        for name in reversed([name for name in sizes if name != takes]):
            kept[name] = math.gcd(sizes[name], left)
            left //= kept[name]
    kept[takes] = 1
    kept[takes] = devices // math.prod(kept.values())
    return kept


def on_topology(experiment: Experiment, new: Topology) -> Resized:
    """An experiment's mesh on another topology than its own."""
    batch = dict(experiment.sharding).get("batch", ())
    return resized(
        experiment.mesh,
        new,
        workload=experiment.workload,
        batch=batch,
        slices=get_topology(experiment.target).slices,
    )


def axes_left(entry: str | Sequence[str] | None, names: Sequence[str]) -> str | list[str] | None:
    """One dim's mesh axes, in JSON form, without those that the mesh does not have.

    >>> axes_left(["x", "y"], ["y"]), axes_left("x", ["y"]), axes_left(None, ["y"])
    ('y', None, None)
    """
    return axes_json(tuple(name for name in axes_of(entry) if name in names))

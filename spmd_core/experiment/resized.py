"""Topologies for a number of chips, and meshes that grow with them."""

import math

from spmd_core.errors import refuse
from spmd_core.experiment.experiment import Experiment
from spmd_core.machine.topologies import Topology

Mesh = tuple[tuple[str, int], ...]


def growing_axis(experiment: Experiment) -> str:
    """The mesh axis that takes more chips.

    Of a decoder `fsdp`, or `data` where there is no `fsdp`; of another workload the one that cuts the batch, or else the first.
    """
    names = [name for name, _ in experiment.mesh]
    if experiment.workload == "decoder":
        return next((name for name in ("fsdp", "data") if name in names), "fsdp")
    return next(iter(dict(experiment.sharding).get("batch", ())), names[0])


def grown_mesh(experiment: Experiment, old: Topology, new: Topology) -> Mesh:
    """The experiment's mesh over another topology: the growing axis takes the change, the others stay, slices lie outermost.

    Slices are cut over the axis that the experiment cuts them over; over `data` where it has but one slice. RequestError where the chips
    do not divide over the axes that stay.
    """
    if (new.devices, new.slices) == (old.devices, old.slices):
        return experiment.mesh
    sizes, grows = dict(experiment.mesh), growing_axis(experiment)
    first = experiment.mesh[0][0]
    if old.slices > 1 and sizes[first] % old.slices == 0:
        sizes[first] //= old.slices
    if grows not in sizes:
        sizes = {grows: 1} | sizes
    kept = {name: size for name, size in sizes.items() if name != grows and size > 1}
    inside, others = new.devices // new.slices, math.prod(kept.values())
    if inside % others:
        axes = " x ".join(f"{name}={size}" for name, size in kept.items())
        what = "of a slice" if new.slices > 1 else "in all"
        raise refuse(f"{inside} devices {what} of {new.name}", f"do not divide over {axes}", f"use multiples of {others}")
    sizes[grows] = inside // others
    if new.slices > 1:
        outer = first if old.slices > 1 else "data" if experiment.workload == "decoder" else grows
        sizes = {outer: sizes.get(outer, 1) * new.slices} | {name: size for name, size in sizes.items() if name != outer}
    in_use = {name: size for name, size in sizes.items() if size > 1 or name != "data"}
    return tuple((in_use or sizes).items())

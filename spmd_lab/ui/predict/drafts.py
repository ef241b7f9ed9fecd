"""The Predict screen's draft after a change of workload, topology or mesh: values in,
values out; no widgets here.
"""

import math
from collections.abc import Mapping
from typing import Any

from spmd_core.base import RequestError
from spmd_core.experiment import Experiment, axes_left, link, resized, shrink
from spmd_core.machine import Target, Topology, get_topology, nearest_topology, parse_target
from spmd_core.workloads import (
    DEFAULT_SPEC,
    STRATEGIES,
    WORKLOADS,
    built_in,
    get_workload,
    named_axes,
    workload_names,
)
from spmd_lab.ui.state import Form, Mesh

# one device leaves nothing to shard
OVER_DEVICES = tuple(
    name for name, row in STRATEGIES.items() if row.is_sharding and not row.is_single_device
)
_FIRST = (DEFAULT_SPEC["workload"], "transformer_block", "attention", "mlp", "layer", "matmul")
_TENSOR = 4  # chips of the tensor axis of a preset


def workloads() -> tuple[str, ...]:
    """Workloads that can be predicted, the models first."""
    known = {name: get_workload(name) for name in workload_names()}
    names = [
        name
        for name, what in known.items()
        if what.is_predicted and set(what.strategies) & {*OVER_DEVICES}
    ]
    return tuple(
        [name for name in _FIRST if name in names] + [name for name in names if name not in _FIRST]
    )


def topology_target(target: str) -> Target | None:
    """The target of a topology's text, legal or not; None for a text that names no topology."""
    try:
        parsed = parse_target(target)
    except RequestError:
        return None
    return parsed if parsed.generation is not None else None


def switched(draft: Form, name: str) -> Form:
    """The draft of another workload on the same topology, with what the two have in common."""
    what = get_workload(name)
    new: Form = {field: draft[field] for field in ("target", "timing", "seed") if field in draft}
    new |= {
        "workload": name,
        "dims": dict(what.defaults),
        "sharding": {},
        "overrides": {},
        "memory": {},
        "data": {},
        "options": {},
        "dtype": "bfloat16" if "bfloat16" in what.dtypes else what.dtypes[0],
    }
    mesh = [list(axis) for axis in draft["mesh"]]
    if what.named_axes:
        known = [axis for axis in mesh if axis[0] in what.named_axes]
        devices = math.prod(size for _, size in mesh)
        return new | {
            "mesh": known if known == mesh else [["fsdp", devices]],
            "strategies": ["auto"],
            "options": dict(DEFAULT_SPEC["options"]),
            "dims": {"batch": 2 * devices, "sequence": 2048},
        }
    kept = [strategy for strategy in draft["strategies"] if strategy in what.strategies]
    both = [strategy for strategy in OVER_DEVICES if strategy in what.strategies]
    same = {dim: axes for dim, axes in draft["sharding"].items() if dim in what.dims}
    # sizes of a laptop's lesson mean nothing on a pod: large enough for every device to have work
    grown = () if "heads" in what.dims else ("in", "out", "hidden", "rows", "cols")
    dims = {dim: 4096 if dim in grown else size for dim, size in what.defaults.items()} | (
        {"batch": 8192} if "batch" in what.dims else {}
    )
    return new | {
        "mesh": mesh,
        "dims": dims,
        "strategies": kept if len(kept) > 1 else both,
        "sharding": same or {what.sharded_dim or what.dims[0]: mesh[0][0]},
    }


def moved(draft: Form, target: str) -> Form:
    """The draft on another topology: the mesh fills it, and a model keeps its sequences per device."""
    before = math.prod(size for _, size in draft["mesh"])
    return with_mesh(draft | {"target": target}, filled(draft, get_topology(target)), before)


def on_target(draft: Form, target: str) -> Form:
    """The draft on another target: a mesh that fits it stays, unless it filled another topology."""
    new = parse_target(target)
    devices = math.prod(size for _, size in draft["mesh"])
    if new.is_absent and topology_target(draft["target"]) is not None:
        return moved(draft, target)
    if new.device_count is None or devices <= new.device_count:
        return draft | {"target": target}
    mesh = shrink(dict(draft["mesh"]), new.device_count)
    return with_mesh(draft | {"target": target}, [list(axis) for axis in mesh.items()], devices)


def with_mesh(draft: Form, mesh: Mesh, devices_before: int) -> Form:
    """The draft on another mesh. A dim that was sharded over an axis that is gone is sharded over
    the first one, if no other dim is.
    """
    names = [name for name, _ in mesh]
    new = draft | {
        "mesh": mesh,
        "sharding": {dim: axes for dim, axes in _kept(draft["sharding"], names).items() if axes},
    }
    if draft["overrides"]:
        new["overrides"] = {
            name: list(_kept(dict(enumerate(spec)), names).values())
            for name, spec in draft["overrides"].items()
        }
    what, devices = built_in(draft["workload"]), math.prod(size for _, size in mesh)
    for dim in what.per_device if what and devices_before else ():
        if isinstance(size := draft["dims"].get(dim), int | float):
            new["dims"] = new["dims"] | {dim: as_integer(size / devices_before * devices)}
    return new


def _kept(table: Mapping[Any, Any], names: list[str]) -> dict[Any, Any]:
    """The axes of each dim that are still there; the first dim that lost all of its own has the
    first axis, where that is free.
    """
    still = {dim: axes_left(axes, names) for dim, axes in table.items()}
    lost = next((dim for dim, axes in table.items() if axes and not still[dim]), None)
    free = not any(axes_left(axes, names[:1]) for axes in still.values())
    if lost is not None and free:
        still[lost] = names[0]
    return still


def as_integer(number: float) -> int | float:
    """A whole number as such; another as it is, for the rules to refuse.

    >>> as_integer(32.0), as_integer(2.5)
    (32, 2.5)
    """
    return int(number) if float(number).is_integer() else float(number)


def filled(draft: Form, topology: Topology) -> Mesh:
    """The draft's mesh as it fills a topology, by the one rule; a size that is none counts as 1."""
    mesh = [(name, max(1, int(size))) for name, size in draft["mesh"]]
    batch = draft["sharding"].get("batch") or ()
    batch = (batch,) if isinstance(batch, str) else tuple(batch)
    here = topology_target(draft["target"])
    slices = here.slices if here else 1
    new = resized(mesh, topology, workload=draft["workload"], batch=batch, slices=slices)
    return [list(axis) for axis in new.mesh]


def presets(workload: str, topology: Topology, mesh: Mesh) -> dict[str, Mesh]:
    """Meshes that one click sets, by what to call them."""
    devices, slices = topology.devices, topology.slices
    within = devices // slices
    tensor = next((size for size in (_TENSOR, 2) if within % size == 0 and within > size), 1)
    outer = [["data", slices]] if slices > 1 else []
    if named_axes(workload):
        meshes = {
            "all fsdp": [*outer, ["fsdp", within]],
            "fsdp × tensor": [*outer, ["fsdp", within // tensor], ["tensor", tensor]],
        }
        if slices > 1:
            return {
                f"data over {'domains' if topology.chip.is_gpu else 'slices'}": meshes["all fsdp"],
                "data × fsdp × tensor": meshes["fsdp × tensor"],
                "fsdp over all": [["fsdp", devices]],
            }
        return meshes if tensor > 1 else {"all fsdp": meshes["all fsdp"]}
    first = mesh[0][0] if mesh else "x"
    other = next(name for name in ("y", "x", "z") if name != first)
    meshes = {"one axis": [[first, devices]]}
    if slices > 1:
        chips = "domains × GPUs" if topology.chip.is_gpu else "slices × chips"
        return meshes | {chips: [[first, slices], [other, within]]}
    physical = [size for size in topology.shape if size > 1]
    if len(physical) > 1:
        cores = topology.chip.devices_per_chip
        meshes["two axes"] = [
            [first, within // (physical[-1] * cores)],
            [other, physical[-1] * cores],
        ]
    return meshes


def nearest(experiment: Experiment) -> Experiment | None:
    """The nearest experiment that can be predicted, for one of another target or whose mesh does
    not fill its topology.
    """
    topology = nearest_topology(topology_target(experiment.target), experiment.device_count)
    draft = experiment.to_json()
    new = with_mesh(
        draft | {"target": topology.target}, filled(draft, topology), experiment.device_count
    )
    new["strategies"] = [name for name in experiment.strategies if name != "single"] or list(
        experiment.strategies
    )
    try:
        return link.nearest(new)[0]
    except RequestError:
        return None


def title_of(name: str) -> str:
    """A workload's name on this screen."""
    return WORKLOADS[name].title if name in WORKLOADS else name

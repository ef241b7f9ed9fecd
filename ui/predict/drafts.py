"""What a change of workload, topology or mesh makes of the Predict screen's draft: values in, values out; no widgets here."""

import math
from collections.abc import Mapping
from typing import Any

from spmd_core.errors import RequestError
from spmd_core.experiment import link
from spmd_core.experiment.experiment import Experiment
from spmd_core.machine.chips import CHIPS
from spmd_core.machine.topologies import Topology, get_topology, legal_shapes
from spmd_core.plan.plan import AXES
from spmd_core.workloads import decoder
from spmd_core.workloads.catalog import WORKLOADS, get_workload, workload_names
from spmd_core.workloads.strategies import SHARDING_STRATEGIES

Draft = dict[str, Any]
Mesh = list[list[Any]]
STRATEGIES = tuple(name for name in SHARDING_STRATEGIES if name != "single")  # of one device there is nothing to lay out
NOT_PREDICTED = ("array", "program", "transfer")  # nothing of them is compiled whole
_FIRST = (decoder.NAME, "transformer_block", "attention", "mlp", "layer", "matmul")
_TENSOR = 4  # chips of the tensor axis of a preset


def workloads() -> tuple[str, ...]:
    """Workloads that can be predicted, the models first."""
    names = [name for name in workload_names() if name not in NOT_PREDICTED and set(get_workload(name).strategies) & {*STRATEGIES}]
    return tuple([name for name in _FIRST if name in names] + [name for name in names if name not in _FIRST])


def split_target(target: str) -> tuple[str, str, int] | None:
    """(generation, shape as text, slices) of a topology's text; None for another target.

    >>> split_target("tpu:v5e:4x4*2")
    ('v5e', '4x4', 2)
    """
    kind, _, rest = target.partition(":")
    generation, _, shape = rest.partition(":")
    shape, _, slices = shape.partition("*")
    return (generation, shape, int(slices or 1)) if kind == "tpu" else None


def joined_target(generation: str, shape: str, slices: int) -> str:
    """The text of a topology."""
    return f"tpu:{generation}:{shape}" + (f"*{slices}" if slices > 1 else "")


def nearest_shape(generation: str, chips: int) -> str:
    """The legal shape of a generation nearest to a number of chips."""
    shape = min(legal_shapes(generation), key=lambda legal: (abs(math.log2(math.prod(legal) / max(1, chips))), math.prod(legal)))
    return "x".join(map(str, shape))


def switched(draft: Draft, name: str) -> Draft:
    """The draft of another workload on the same topology, with what the two have in common."""
    what = get_workload(name)
    new: Draft = {field: draft[field] for field in ("target", "timing", "seed") if field in draft}
    new |= {"workload": name, "dims": dict(what.defaults), "sharding": {}, "overrides": {}, "memory": {}, "data": {}, "options": {},
            "dtype": "bfloat16" if "bfloat16" in what.dtypes else what.dtypes[0]}
    mesh = [list(axis) for axis in draft["mesh"]]
    if name == decoder.NAME:
        known = [axis for axis in mesh if axis[0] in AXES]
        devices = math.prod(size for _, size in mesh)
        return new | {"mesh": known if known == mesh else [["fsdp", devices]], "strategies": ["auto"],
                      "options": dict(decoder.DEFAULT_SPEC["options"]), "dims": {"batch": 2 * devices, "sequence": 2048}}
    kept = [strategy for strategy in draft["strategies"] if strategy in what.strategies]
    both = [strategy for strategy in STRATEGIES if strategy in what.strategies]
    same = {dim: axes for dim, axes in draft["sharding"].items() if dim in what.dims} if draft["workload"] != decoder.NAME else {}
    # sizes of a laptop's lesson say nothing about a pod: large enough for every device to have work
    dims = {dim: _larger(dim, size, what.dims) for dim, size in what.defaults.items()} | ({"batch": 8192} if "batch" in what.dims else {})
    return new | {"mesh": mesh, "dims": dims, "strategies": kept if len(kept) > 1 else both,
                  "sharding": same or {what.cut or what.dims[0]: mesh[0][0]}}


def _larger(dim: str, size: int, dims: tuple[str, ...]) -> int:
    return 4096 if dim in ("in", "out", "hidden", "rows", "cols") and "heads" not in dims else size


def moved(draft: Draft, target: str) -> Draft:
    """The draft on another topology: the mesh fills it, and a model keeps its sequences per device."""
    topology = get_topology(target)
    before = math.prod(size for _, size in draft["mesh"])
    mesh = filled(draft["mesh"], topology)
    return with_mesh(draft | {"target": target}, mesh, before)


def with_mesh(draft: Draft, mesh: Mesh, devices_before: int) -> Draft:
    """The draft on another mesh. A dim that was cut over an axis that is gone is cut over the first one, if no other dim is."""
    names = [name for name, _ in mesh]
    new = draft | {"mesh": mesh, "sharding": {dim: axes for dim, axes in _kept(draft["sharding"], names).items() if axes}}
    if draft["overrides"]:
        new["overrides"] = {name: list(_kept(dict(enumerate(spec)), names).values()) for name, spec in draft["overrides"].items()}
    batch = draft["dims"].get("batch")
    if draft["workload"] == decoder.NAME and isinstance(batch, int | float) and devices_before:
        new["dims"] = draft["dims"] | {"batch": whole(batch / devices_before * math.prod(size for _, size in mesh))}
    return new


def _kept(table: Mapping[Any, Any], names: list[str]) -> dict[Any, Any]:
    """The axes of each dim that are still there; the first dim that lost all of its own has the first axis, where that is free."""
    given = {dim: [axes] if isinstance(axes, str) else list(axes or []) for dim, axes in table.items()}
    still = {dim: [name for name in axes if name in names] for dim, axes in given.items()}
    lost = next((dim for dim, axes in given.items() if axes and not still[dim]), None)
    if lost is not None and not any(names[0] in axes for axes in still.values()):
        still[lost] = [names[0]]
    return {dim: None if not axes else axes[0] if len(axes) == 1 else axes for dim, axes in still.items()}


def whole(number: float) -> int | float:
    """A whole number as such; another as it is, for the rules to refuse.

    >>> whole(32.0), whole(2.5)
    (32, 2.5)
    """
    return int(number) if float(number).is_integer() else float(number)


def filled(mesh: Mesh, topology: Topology) -> Mesh:
    """The mesh with one axis changed so that it fills the topology; slices lie on an axis `data` of a model."""
    axes = [[name, int(size)] for name, size in mesh if int(size) >= 1]
    names = [name for name, _ in axes]
    if topology.slices > 1 and "fsdp" in names:
        axes = [["data", topology.slices], *(axis for axis in axes if axis[0] != "data")]
    elif topology.slices == 1 and "data" in names and "fsdp" in names:
        axes = [axis for axis in axes if axis[0] != "data"]
    if math.prod(size for _, size in axes) == topology.devices:
        return axes
    give = next((axis for axis in axes if axis[0] == "fsdp"), max(axes, key=lambda axis: axis[1]) if axes else ["fsdp", 1])
    rest = math.prod(size for name, size in axes if name != give[0])
    if topology.devices % rest == 0:
        return [[name, topology.devices // rest if name == give[0] else size] for name, size in axes]
    if topology.slices > 1 and "data" in [name for name, _ in axes]:
        return [["data", topology.slices], [give[0], topology.devices // topology.slices]]
    return [[give[0], topology.devices]]


def presets(workload: str, topology: Topology, mesh: Mesh) -> dict[str, Mesh]:
    """Meshes that one click sets, by what to call them."""
    devices, slices = topology.devices, topology.slices
    within = devices // slices
    tensor = next((size for size in (_TENSOR, 2) if within % size == 0 and within > size), 1)
    outer = [["data", slices]] if slices > 1 else []
    if workload == decoder.NAME:
        found = {"all fsdp": [*outer, ["fsdp", within]], "fsdp × tensor": [*outer, ["fsdp", within // tensor], ["tensor", tensor]]}
        if slices > 1:
            return {"data over slices": found["all fsdp"], "data × fsdp × tensor": found["fsdp × tensor"], "fsdp over all": [["fsdp", devices]]}
        return found if tensor > 1 else {"all fsdp": found["all fsdp"]}
    first = mesh[0][0] if mesh else "x"
    other = next(name for name in ("y", "x", "z") if name != first)
    found = {"one axis": [[first, devices]]}
    if slices > 1:
        return found | {"slices × chips": [[first, slices], [other, within]]}
    physical = [size for size in topology.shape if size > 1]
    if len(physical) > 1:
        cores = topology.chip.devices_per_chip
        found["two axes"] = [[first, within // (physical[-1] * cores)], [other, physical[-1] * cores]]
    return found


def nearest(experiment: Experiment) -> Experiment | None:
    """The nearest experiment that can be predicted, for one of another target or whose mesh does not fill its topology."""
    parts = split_target(experiment.target)
    generation = parts[0] if parts and parts[0] in CHIPS else "v5e"
    shapes = ["x".join(map(str, shape)) for shape in legal_shapes(generation)]
    chips = math.prod(int(size) for size in parts[1].split("x")) if parts else experiment.device_count // CHIPS[generation].devices_per_chip
    shape = parts[1] if parts and parts[1] in shapes else nearest_shape(generation, chips)
    topology = get_topology(joined_target(generation, shape, min(parts[2], 256) if parts else 1))
    new = with_mesh(experiment.to_json() | {"target": topology.target}, filled([list(axis) for axis in experiment.mesh], topology),
                    experiment.device_count)
    new["strategies"] = [name for name in experiment.strategies if name != "single"] or list(experiment.strategies)
    try:
        return link.nearest(new)[0]
    except RequestError:
        return None


def title_of(name: str) -> str:
    """A workload's name on this screen."""
    return WORKLOADS[name].title if name in WORKLOADS else name

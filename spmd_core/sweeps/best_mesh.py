"""The best mesh of a training step on a topology, by the instant estimate."""

import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import Any, cast

from spmd_core.base import RequestError
from spmd_core.fields import Mesh
from spmd_core.machine import Topology, get_topology
from spmd_core.plan import (
    CONTEXT,
    LONG_SEQUENCE,
    MICROBATCHES,
    MOST_MICROBATCHES,
    STAGE,
    Plan,
    fewer_microbatches,
)
from spmd_core.search import SAME, named_meshes, staged_meshes, step_options, without_options
from spmd_core.sweeps.context_kinds import BOTH, CONTEXT_KINDS, with_heads
from spmd_core.sweeps.saved_arrays import (
    Fitting,
    fastest,
    is_any_sure,
    offloaded,
    rematerialized,
    sure_to_fit,
    with_saved,
)
from spmd_core.time import MeshEstimates, may_pass_in_rings
from spmd_core.workloads import parse_plan

BEST = "best"  # in place of a mesh
MOST_AXES = 2  # within a slice
_AXES = ("data", "fsdp", "expert", "sequence", "tensor")
_LONG = ("data", "fsdp", "expert", "sequence", CONTEXT, "tensor")
_KEPT = 512
_MOST_TENSOR = 16  # beside stages: two nodes of 8 GPUs
# times the step of a plan that may fit: a sure one that takes longer is no better than a compile of it
_MOST_SURE = 1.5
# fields of a form that are read below, or that a search sets
_READ = ("sequence", "context_attention", "context_order", "schedule", "repeats", "microbatches")
_USUAL = {name: each.default for name, each in Plan.model_fields.items() if not each.is_required()}
_SCHEDULES = (
    {"schedule": "zb-h1"},
    {"schedule": "interleaved", "repeats": 2},
    {"schedule": "interleaved", "repeats": 4},
)


@dataclass(frozen=True, slots=True)
class BestMesh:
    """The plan with the shortest step of those sure to fit, else of those that may, else the one with
    the least memory;
    `tried`: meshes that the sizes divide over; `plans`: these under each rematerialization, and with
    other arrays saved and offloaded; `meshes`: each mesh that was tried, once."""

    plan: Plan
    tried: int
    fits: bool
    plans: int
    meshes: tuple[Mesh, ...] = ()


def best_mesh(
    form: Mapping[str, object],
    target: str,
    batch: float,
    remats: Sequence[str] = (),
    in_stages: bool = False,
    has_options: bool = True,
) -> BestMesh:
    """Returns the plan with the best mesh of up to two axes, with `data` over slices beside them; of
    three where no two fit, and devices are no power of two; or with stages where the form has some, or no mesh but a schedule. A mesh of the form that fills the
    topology is tried, too; of long sequences also `context`, with each kind of attention over it.

    Args:
      form: the JSON form of a plan; its target, mesh and batch are replaced.
      target: the topology.
      batch: sequences of a step.
      remats: rematerializations to try beside that of the form.
      in_stages: try `_pipelines` of a form without stages instead.
      has_options: where rematerialization is open, try `step_options` too, in place of the form's.

    Raises:
      RequestError: the sizes divide over no mesh.
    """
    way = ("", "stages", "pipelines")[2 if in_stages else has_stages(form)]
    is_open = has_options and bool(remats) and not way
    given = without_options(form) if is_open else form
    kept = _without_usual(given)
    mesh = dict(cast(Mapping[str, int], form.get("mesh") or {}))
    text, own = json.dumps(kept | {"batch_per_device": None}), tuple(mesh.items())
    return _best(text, target, batch, tuple(remats), way, own, is_open)


def _without_usual(form: Mapping[str, object]) -> dict[str, object]:
    """A form without its mesh and target, and without most fields that have their default: each takes
    its share of checking a plan, of which there are hundreds.
    """
    return {
        name: value
        for name, value in form.items()
        if name not in ("mesh", "target") and (name in _READ or value != _USUAL.get(name, _READ))
    }


def has_stages(form: Mapping[str, object]) -> bool:
    """Returns True if a form has stages, or a schedule without a mesh."""
    mesh = form.get("mesh") or ()
    return STAGE in dict(cast(Mesh, mesh)) or (not mesh and bool({"schedule", "repeats"} & {*form}))


@lru_cache(maxsize=_KEPT)
def _best(
    form: str,
    target: str,
    batch: float,
    remats: tuple[str, ...],
    way: str,
    own: Mesh,
    is_open: bool,
) -> BestMesh:
    topology = get_topology(target)
    given = json.loads(form) | {"target": topology.target}
    given["batch_per_device"] = batch / topology.devices
    if not is_open:
        fitting: list[Fitting] = []
        forms = _forms_of(given, topology, way, own, fitting)
        return _of_forms(forms, topology, remats, fitting)
    best = _best(form, target, batch, remats, way, own, False)
    rings = may_pass_in_rings(topology, best.plan.compiler_flags)
    for change in step_options(given, rings)[1:]:
        forms = _forms({**given, **dict(change)}, batch, best.meshes)
        best = _better(best, forms, topology, remats)[0]
    flags = step_options({**given, "microbatches": 1}, rings)
    for flag in flags if given.get("microbatches") is None else ():
        best = _in_more_parts(best, {**given, **dict(flag)}, topology, batch, remats)
    return best


def _in_more_parts(
    best: BestMesh,
    given: Mapping[str, Any],
    topology: Topology,
    batch: float,
    remats: tuple[str, ...],
) -> BestMesh:
    """Returns the best mesh also in all other numbers of microbatches that divide the sequences of its
    shards: the fewer of these are held at once, the more of each is saved. Each mesh is tried in
    more and more of them, until none of its plans could be faster.
    """
    left = best.meshes
    for parts in _numbers_of_parts(batch):
        into = [mesh for mesh in left if fewer_microbatches(parts, batch, mesh) == parts]
        forms = _forms({**given, "microbatches": parts}, batch, into)
        best, kept = _better(best, forms, topology, remats) if into else (best, ())
        left = tuple(mesh for mesh in left if mesh in kept or mesh not in into)
    return best


def _numbers_of_parts(batch: float) -> Iterator[int]:
    """Numbers of microbatches that divide a batch, ascending, but for those that `step_options` has."""
    for parts in range(2, min(int(batch), MOST_MICROBATCHES) + 1):
        if batch % parts == 0 and parts not in MICROBATCHES:
            yield parts


def _better(
    best: BestMesh,
    forms: Iterable[Mapping[str, object]],
    topology: Topology,
    remats: tuple[str, ...],
) -> tuple[BestMesh, tuple[Mesh, ...]]:
    """Returns the better of the best mesh and that of these forms, a plan that is sure to fit before
    one that may and is not much faster; and those of their meshes that may be better.
    """
    is_sure = _is_sure(best)
    seconds = _seconds(best.plan) if best.fits else math.inf
    most = seconds * ((1 - SAME) if is_sure else _MOST_SURE)
    try:
        other = _of_forms(forms, topology, remats, [], most)
    except RequestError:  # none divides into so many microbatches, or may be faster
        return best, ()
    is_surer = _is_sure(other) and not is_sure
    least = most if is_surer else (1 - SAME) * seconds
    is_better = _is_sure(other) >= is_sure and other.fits and _seconds(other.plan) < least
    plans, better = best.plans + other.plans, other if is_better else best
    return replace(better, tried=best.tried, plans=plans, meshes=best.meshes), other.meshes


def _is_sure(best: BestMesh) -> bool:
    memory = MeshEstimates(best.plan).memory(best.plan)
    return best.fits and memory.fits(best.plan.topology.chip.capacity) == "yes"


def _seconds(plan: Plan) -> float:
    estimates = MeshEstimates(plan)
    return estimates.time(plan, estimates.memory(plan).host).estimate


def _of_forms(
    forms: Iterable[Mapping[str, object]],
    topology: Topology,
    remats: tuple[str, ...],
    fitting: list[Fitting],
    most: float = math.inf,
) -> BestMesh:
    """The best of the meshes whose step, as one pass that keeps every activation, takes less than
    `most` seconds; `fitting` has those that fit so far.
    """
    others: list[tuple[int, int, Plan]] = []
    seen: list[tuple[Plan, MeshEstimates]] = []
    reasons, meshes, tried, plans = dict[str, None](), dict[Mesh, None](), 0, 0
    for first in _plans(forms, reasons):
        estimates = MeshEstimates(first)
        if most < math.inf and estimates.least() >= most:
            continue
        tried += 1
        meshes[first.mesh] = None
        memories = [(plan, estimates.memory(plan)) for plan in rematerialized(first, remats)]
        plans += len(memories)
        capacity = topology.chip.capacity
        held = [(plan, memory) for plan, memory in memories if memory.is_held(capacity)]
        if held:  # a bound takes as long as the seconds of one plan
            least = estimates.least() if len(held) > 1 else 0.0
            fitting.append((least, len(fitting), estimates, held))
        seen.append((first, estimates))
        for plan, memory in [] if fitting else memories:
            others.append((memory.peak + memory.host, len(others), plan))
    if not tried:
        raise _refusal(topology, (*reasons,))
    more_plans = 0
    if remats and not is_any_sure(fitting):
        hosted, more_plans = offloaded(seen)
        fitting = hosted if is_any_sure(hosted) or not fitting else fitting
    best = fastest(sure_to_fit(fitting)) if fitting else min(others)[2]
    bare = BestMesh(best, tried, bool(fitting), plans + more_plans, (*meshes,))
    return _saving_more(bare, remats, fitting, most)


def _forms_of(
    given: Mapping[str, Any], topology: Topology, way: str, own: Mesh, fitting: Sequence[object]
) -> Iterator[Mapping[str, object]]:
    if way == "pipelines":
        return _pipelines(given, topology)
    is_long = CONTEXT in dict(own) or (given.get("sequence") or 0) >= LONG_SEQUENCE
    meshes = _staged(topology) if way else _meshes(topology, is_long)
    more = () if way else _of_more_axes(topology, is_long, fitting)
    batch = given["batch_per_device"] * topology.devices
    return _forms(given, batch, chain(meshes, _filled(given, own, topology), more))


def _saving_more(
    best: BestMesh, remats: Collection[str], fitting: Sequence[Fitting], most: float
) -> BestMesh:
    """The best mesh with the arrays saved that make it fastest, where rematerialization is open and
    that is faster than `most`.
    """
    if not (remats and best.fits):
        return best
    plan, tried = with_saved(best.plan, fitting, most)
    return replace(best, plan=plan, plans=best.plans + tried)


def _plans(forms: Iterable[Mapping[str, object]], reasons: dict[str, None]) -> Iterator[Plan]:
    """Plans of forms of one model; those of a mesh with `expert` only where it has experts. Adds why
    a form has none to `reasons`.
    """
    is_dense = False
    for form in forms:
        if is_dense and "expert" in dict(cast(Mesh, form["mesh"])):
            continue
        try:
            plan = parse_plan(form)
        except RequestError as error:
            reasons[str(error)] = None
            continue
        is_dense = plan.size.experts == 1
        if not (is_dense and "expert" in plan.axis_sizes):
            yield plan


def _refusal(topology: Topology, reasons: tuple[str, ...]) -> RequestError:
    """That of no mesh; what every mesh is refused for alike is not of the mesh."""
    if len(reasons) == 1:
        return RequestError(reasons[0])
    why = f": {reasons[0]}" if reasons else ", which no number of stages divides: use other chips"
    return RequestError(f"no mesh of {topology.name} works{why}")


def _filled(given: Mapping[str, object], own: Mesh, topology: Topology) -> Iterator[Mesh]:
    """A mesh that fills the topology; one with `context` also with heads over a part of that."""
    if own and math.prod(size for _, size in own) == topology.devices:
        yield own
        if CONTEXT in dict(own):
            with suppress(RequestError):
                plan = parse_plan({**given, "mesh": own, "context_attention": "all-gather"})
                yield tuple(with_heads(plan, dict(own)))


def _forms(
    given: Mapping[str, Any], batch: float, meshes: Iterable[Mesh]
) -> Iterator[dict[str, object]]:
    """A plan's form with each mesh, and as many microbatches as divide the batch; with `context` also
    with each kind of attention over it.
    """
    own = (
        given.get("context_attention") or CONTEXT_KINDS[0],
        given.get("context_order") or "balanced",
    )
    kinds = dict.fromkeys((own, *((each, "balanced") for each in CONTEXT_KINDS if each != BOTH)))
    for mesh in meshes:
        fewer = fewer_microbatches(given.get("microbatches"), batch, mesh)
        for kind, order in kinds if CONTEXT in dict(mesh) else (own,):
            kinds_of = {"context_attention": kind, "context_order": order}
            yield {**given, "mesh": mesh, "microbatches": fewer, **kinds_of}


def _staged(topology: Topology) -> Iterator[Mesh]:
    """Meshes with stages over slices, or each over several, among which the batch is divided."""
    for mesh in staged_meshes(topology.devices, _AXES):
        (_, stages), (name, size) = mesh[0], (*mesh, ("", 1))[1]
        several, rest = divmod(topology.slices, stages)
        is_divided = not rest and name in ("data", "fsdp") and size % several == 0
        if stages % topology.slices == 0 or is_divided:
            yield mesh


def _pipelines(given: Mapping[str, object], topology: Topology) -> Iterator[dict[str, object]]:
    """Forms of 2 to 16 stages whose optimizer is sharded over `data`, beside `expert` or some of
    `tensor`, under ZB-H1 and interleaved.
    """
    for mesh in staged_meshes(topology.devices, ("data", "expert", "tensor")):
        if mesh[1:] and mesh[1][0] == "data" and dict(mesh).get("tensor", 1) <= _MOST_TENSOR:
            for schedule in _SCHEDULES:
                yield {**given, **schedule, "mesh": mesh, "shard_optimizer_over_data": True}


def _meshes(topology: Topology, is_long: bool) -> Iterator[Mesh]:
    slices, names = topology.slices, _LONG if is_long else _AXES
    if topology.devices == 1:
        yield (("fsdp", 1),)
        return
    yield from named_meshes(topology.devices, names, MOST_AXES)
    if slices > 1:
        for mesh in named_meshes(topology.devices, names, MOST_AXES + 1):
            if len(mesh) > MOST_AXES and mesh[0] == ("data", slices):
                yield mesh


def _of_more_axes(topology: Topology, is_long: bool, fitting: Sequence[object]) -> Iterator[Mesh]:
    """Where nothing that was tried before fits, and devices are no power of two: what divides them
    may be of three kinds.
    """
    if fitting or topology.devices.bit_count() == 1:
        return
    for mesh in named_meshes(topology.devices, _LONG if is_long else _AXES, MOST_AXES + 1):
        if len(mesh) > MOST_AXES:
            yield mesh

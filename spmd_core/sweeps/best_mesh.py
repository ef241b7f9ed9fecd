"""The best mesh of a training step by the instant estimate: on a topology, and of each kind of
attention over `context`, on longer and longer sequences.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby
from typing import Any, cast

from spmd_core.base import RequestError
from spmd_core.facts import Prediction
from spmd_core.fields import Mesh
from spmd_core.machine import Topology, get_topology
from spmd_core.plan import CONTEXT, DATA_AXES, LONG_SEQUENCE, MAX_SEQUENCE, STAGE, Plan
from spmd_core.search import named_meshes, staged_meshes
from spmd_core.time import MeshEstimates, estimate_step, is_of_context
from spmd_core.workloads import parse_plan

BOTH = "ulysses and ring"
CONTEXT_KINDS = ("all-gather", "ring", "ulysses", BOTH)


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A kind of attention over `context` on sequences of so many tokens.

    Attributes:
      step: the estimate of its plan; None where there is none, by its `refusal`.
    """

    kind: str
    tokens: int
    plan: Plan | None = None
    step: Prediction | None = None
    refusal: str = ""

    @property
    def seconds(self) -> float | None:
        """Seconds of a step."""
        return self.step.predicted_s.estimate if self.step and self.step.predicted_s else None

    @property
    def exposed_s(self) -> float | None:
        """Seconds of a step that attention waits for keys, values, or heads of other devices."""
        if self.step is None:
            return None
        moved = (each for each in self.step.collectives or () if is_of_context(each.name or ""))
        return sum(each.exposed_total_s or 0.0 for each in moved)


def context_rows(plan: Plan) -> tuple[ContextRow, ...]:
    """Returns every kind on the plan's sequence and on each twice as long, to a million tokens; none
    of a plan without the axis.

    Longer sequences are divided among as many more devices, and a step has as many fewer of them: the
    tokens of a device stay.
    """
    if plan.axis_sizes.get(CONTEXT, 1) == 1:
        return ()
    times = range((MAX_SEQUENCE // plan.sequence).bit_length())
    return tuple(_row(plan, kind, 2**each) for each in times for kind in CONTEXT_KINDS)


def fastest_kinds(rows: Sequence[ContextRow]) -> dict[int, str]:
    """Returns the fastest kind that fits, by tokens of a sequence; "none" where none fits."""
    best = dict[int, str]()
    for tokens, alike in groupby(rows, lambda row: row.tokens):
        fitting = [row for row in alike if row.step and row.step.fits and row.seconds]
        best[tokens] = min(fitting, key=lambda row: row.seconds or 0.0).kind if fitting else "none"
    return best


def _row(plan: Plan, kind: str, times: int) -> ContextRow:
    tokens, form = plan.sequence * times, plan.to_json()
    mesh = _longer(plan, times)
    form |= {"sequence": tokens, "batch_per_device": plan.batch_per_device / times}
    form |= {"context_attention": "ring" if kind == BOTH else kind, "context_order": "balanced"}
    try:
        form["mesh"] = [*with_heads(plan, mesh)] if kind == BOTH else [*mesh.items()]
        other = parse_plan(form)
    except RequestError as error:
        return ContextRow(kind, tokens, refusal=str(error))
    return ContextRow(kind, tokens, other, estimate_step(other))


def _longer(plan: Plan, times: int) -> dict[str, int]:
    """The mesh with that much more of `context`, as far as axes of the batch have it."""
    mesh = dict(plan.mesh)
    for axis in reversed(DATA_AXES):
        moved = math.gcd(mesh.get(axis, 1), times)
        if moved > 1:
            mesh |= {axis: mesh[axis] // moved, CONTEXT: mesh[CONTEXT] * moved}
            times //= moved
    return mesh


def with_heads(plan: Plan, mesh: dict[str, int]) -> Iterator[tuple[str, Any]]:
    """The mesh with `sequence`, which moves heads, over as much of `context` as these divide over; the
    ring is over the rest, of 2 at least.
    """
    over = math.prod(mesh.get(axis, 1) for axis in ("tensor", "sequence"))
    heads = math.gcd(plan.size.heads // math.gcd(plan.size.heads, over), mesh[CONTEXT] // 2)
    for axis, size in mesh.items():
        if axis == CONTEXT:
            yield "sequence", mesh.get("sequence", 1) * heads
            yield axis, size // heads
        elif axis != "sequence":
            yield axis, size


BEST = "best"  # in place of a mesh
MOST_AXES = 2  # within a slice
_AXES = ("data", "fsdp", "expert", "sequence", "tensor")
_LONG = ("data", "fsdp", "expert", "sequence", CONTEXT, "tensor")
_KEPT = 512


@dataclass(frozen=True, slots=True)
class BestMesh:
    """The plan with the shortest step of those that should fit, else the one with the least memory;
    `tried`: meshes that the sizes divide over."""

    plan: Plan
    tried: int
    fits: bool


def best_mesh(
    form: Mapping[str, object], target: str, batch: float, remats: Sequence[str] = ()
) -> BestMesh:
    """Returns the plan with the best mesh of up to two axes, with `data` over slices beside them; of
    three where no two fit, and devices are no power of two; or with stages where the form has some, or no mesh but a schedule. A mesh of the form that fills the
    topology is tried, too; of long sequences also `context`, with each kind of attention over it.

    Args:
      form: the JSON form of a plan; its target, mesh and batch are replaced.
      target: the topology.
      batch: sequences of a step.
      remats: rematerializations to try beside that of the form.

    Raises:
      RequestError: the sizes divide over no mesh.
    """
    kept = {name: value for name, value in form.items() if name not in ("mesh", "target")}
    mesh = dict(cast(Mapping[str, int], form.get("mesh") or {}))
    in_stages = STAGE in mesh or (not mesh and bool({"schedule", "repeats"} & {*form}))
    text, own = json.dumps(kept | {"batch_per_device": None}), tuple(mesh.items())
    return _best(text, target, batch, tuple(remats), in_stages, own)


@lru_cache(maxsize=_KEPT)
def _best(
    form: str, target: str, batch: float, remats: tuple[str, ...], in_stages: bool, own: Mesh
) -> BestMesh:
    topology = get_topology(target)
    given = json.loads(form) | {"target": topology.target}
    given["batch_per_device"] = batch / topology.devices
    fitting: list[_Fitting] = []
    others: list[tuple[int, int, Plan]] = []
    reasons, tried = dict[str, None](), 0
    is_long = CONTEXT in dict(own) or (given.get("sequence") or 0) >= LONG_SEQUENCE
    meshes = _staged(topology) if in_stages else _meshes(topology, is_long)
    more = () if in_stages else _of_more_axes(topology, is_long, fitting)
    for each in _forms(given, chain(meshes, _filled(given, own, topology), more)):
        try:
            first = parse_plan(each)
        except RequestError as error:
            reasons[str(error)] = None
            continue
        if first.size.experts == 1 and "expert" in first.axis_sizes:
            continue
        tried += 1
        estimates = MeshEstimates(first)
        memories = [(plan, estimates.memory(plan)) for plan in _policies(first, remats)]
        capacity = topology.chip.capacity
        held = [(plan, memory.host) for plan, memory in memories if memory.is_held(capacity)]
        if held:  # a bound takes as long as the seconds of one plan
            least = estimates.least() if len(held) > 1 else 0.0
            fitting.append((least, len(fitting), estimates, held))
        for plan, memory in [] if fitting else memories:
            others.append((memory.peak + memory.host, len(others), plan))
    if not tried:
        raise _refusal(topology, (*reasons,))
    return BestMesh(_fastest(fitting) if fitting else min(others)[2], tried, bool(fitting))


def _refusal(topology: Topology, reasons: tuple[str, ...]) -> RequestError:
    """That of no mesh; what every mesh is refused for alike is not of the mesh."""
    if len(reasons) == 1:
        return RequestError(reasons[0])
    why = f": {reasons[0]}" if reasons else ", which no number of stages divides: use other chips"
    return RequestError(f"no mesh of {topology.name} works{why}")


_Fitting = tuple[float, int, MeshEstimates, list[tuple[Plan, int]]]


def _policies(first: Plan, remats: tuple[str, ...]) -> list[Plan]:
    """The plan, and with each of these rematerializations."""
    own = first.remat, first.save, first.offload
    return [
        first.model_copy(update={"remat": remat, "save": save, "offload": offload})
        for remat, save, offload in dict.fromkeys((own, *((each, (), ()) for each in remats)))
    ]


def _fastest(fitting: list[_Fitting]) -> Plan:
    """The plan with the shortest step. Of a mesh: seconds that none of its plans stays below, its
    place, and its plans with what they offload.
    """
    shortest: tuple[float, int, int, Plan | None] = math.inf, 0, 0, None
    for least, place, estimates, held in sorted(fitting, key=lambda each: each[:2]):
        if least > shortest[0]:
            break
        for number, (plan, host) in enumerate(held):
            seconds = estimates.time(plan, host).estimate
            shortest = min(shortest, (seconds, place, number, plan))
    assert shortest[-1]
    return shortest[-1]


def _filled(given: Mapping[str, object], own: Mesh, topology: Topology) -> Iterator[Mesh]:
    """A mesh that fills the topology; one with `context` also with heads over a part of that."""
    if own and math.prod(size for _, size in own) == topology.devices:
        yield own
        if CONTEXT in dict(own):
            with suppress(RequestError):
                plan = parse_plan({**given, "mesh": own, "context_attention": "all-gather"})
                yield tuple(with_heads(plan, dict(own)))


def _forms(given: Mapping[str, object], meshes: Iterable[Mesh]) -> Iterator[dict[str, object]]:
    """A plan's form with each mesh; with `context` also with each kind of attention over it."""
    own = (
        given.get("context_attention") or CONTEXT_KINDS[0],
        given.get("context_order") or "balanced",
    )
    kinds = dict.fromkeys((own, *((each, "balanced") for each in CONTEXT_KINDS if each != BOTH)))
    for mesh in meshes:
        for kind, order in kinds if CONTEXT in dict(mesh) else (own,):
            yield {**given, "mesh": mesh, "context_attention": kind, "context_order": order}


def _staged(topology: Topology) -> Iterator[Mesh]:
    """Meshes with stages, which are over slices where there are several."""
    for mesh in staged_meshes(topology.devices, _AXES):
        if mesh[0][1] % topology.slices == 0:
            yield mesh


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

"""The space of a model's training steps: topology, mesh, batch, policy; pruned or estimated."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby

from spmd_core.base import RequestError, mesh_text, refuse
from spmd_core.experiment import AXES, VARIABLE, Plan, arrays, parse_plan
from spmd_core.machine import Topology
from spmd_core.results import StoredFact
from spmd_core.search.candidate import Candidate, Reason, Rule, TrainingStep, over_limit
from spmd_core.search.factors import named_meshes
from spmd_core.search.policies import Policy, policies
from spmd_core.search.question import BATCHES, ModelQuestion
from spmd_core.search.standards import kind_of_mesh
from spmd_core.time import MeshEstimates

Mesh = tuple[tuple[str, int], ...]
Key = tuple[object, ...]
WIDE = 40_000  # candidates that are all estimated: seconds; of more, those of the best meshes
WIDEST = 10_000_000  # a quick look at so many takes minutes: more are refused
EACH = 2  # meshes and batches of each topology that are kept however they look
BATCHES_TRIED = 3  # of each mesh, from the largest that fits
QUICK = 3  # policies of a quick look, beside the one that offloads everything: none, minimal, full


@dataclass(frozen=True, slots=True)
class _Point:
    """Policies on one mesh of one topology with one batch; `number` is that of the first."""

    question: ModelQuestion
    topology: Topology
    mesh: Mesh
    per_device: float
    policies: tuple[Policy, ...]
    number: int

    def plan(self, policy: Policy) -> Plan:
        """The plan of a policy; RequestError where the sizes do not divide."""
        given = dict(self.question.plan)
        sizes = {name: given.pop(name) for name in VARIABLE if name in given}
        return parse_plan(
            {
                **given,
                "sizes": sizes,
                "target": self.topology.target,
                "model": self.question.model,
                "mesh": self.mesh,
                "sequence": self.question.sequence,
                "batch_per_device": self.per_device,
                **policy.fields,
            }
        )

    def name(self, policy: Policy) -> str:
        """Mesh, policy, batch and topology, which distinguish candidates."""
        mesh = mesh_text(self.mesh, ",") or "1 device"
        return f"{mesh} · {policy.words} · {self.per_device:g} per device · {self.topology.name}"

    def pruned(self, reason: Reason, detail: Rule, equal: int | None = None) -> Iterator[Candidate]:
        """All of them, for one reason."""
        target = self.topology.target
        for place, policy in enumerate(self.policies):
            yield Candidate(
                self.number + place,
                self.name(policy),
                target,
                self.topology.chips,
                "pruned",
                reason,
                detail,
                equal=None if equal is None else equal + place,
            )


def space_size(question: ModelQuestion) -> int:
    """Candidates of a question, before anything is pruned; counted no further than just above
    WIDEST.
    """
    total = 0
    for point in _points(question):
        total += len(point.policies)
        if total > WIDEST:
            break
    return total


def candidates(
    question: ModelQuestion, stop: Callable[[], bool] = lambda: False
) -> Iterator[Candidate]:
    """Every candidate, pruned or estimated, the standard shardings first, then in the order of the
    enumeration; of a space beyond `WIDE` those of the most promising meshes and batches. Until `stop`, which is called before each
    mesh.
    """
    seen: dict[Key, int] = {}
    is_wide = space_size(question) > WIDE
    points = _promising(question, stop) if is_wide else _points(question)
    for point in sorted(points, key=lambda point: not kind_of_mesh(point.mesh)):
        if stop():
            return
        yield from _tried(point, seen)


def _promising(question: ModelQuestion, stop: Callable[[], bool]) -> list[_Point]:
    """The meshes and batches that are best in a quick look: of each topology its best `EACH` and of
    each standard sharding the best, whether it fits or not, and of all together as many as make up
    `WIDE` candidates; in the order of the enumeration.
    """
    looked: list[tuple[float, _Point]] = []
    standard: dict[tuple[str, str], tuple[float, _Point]] = {}
    for _, of_mesh in groupby(_points(question), lambda point: (point.topology, point.mesh)):
        if stop():
            break
        fitting = 0
        for point in reversed(
            list(of_mesh)
        ):  # the largest batch first: it takes the least per token
            score, kind = _quick_look(point), (point.topology.target, kind_of_mesh(point.mesh))
            if score is None:  # the reason of a standard sharding only where no batch makes a plan
                standard.setdefault(kind, (math.inf, point))
                continue
            if kind not in standard or score <= standard[kind][0]:
                standard[kind] = score, point
            if score < math.inf:
                looked.append((score, point))
                fitting += 1
            if fitting == BATCHES_TRIED:
                break
    looked.sort(key=lambda pair: pair[0])
    places: Counter[str] = Counter()
    kept, rest = [point for (_, kind), (_, point) in standard.items() if kind], []
    known = {point.number for point in kept}
    for _, point in looked:
        places[point.topology.target] += 1
        if point.number not in known:
            (kept if places[point.topology.target] <= EACH else rest).append(point)
    room = WIDE // len(kept[0].policies) - len(kept) if kept else 0
    return sorted((*kept, *rest[: max(0, room)]), key=lambda point: point.number)


def _quick_look(point: _Point) -> float | None:
    """Seconds per token of the best of a few policies; infinite where none of them fits, None where
    the sizes make no plan.
    """
    if _not_as_fixed(point) is not None:
        return None
    try:
        first = point.plan(point.policies[0])
        _check_slices(point)
    except RequestError:
        return None
    estimates = MeshEstimates(first)
    most = point.question.limit(point.topology)
    best = math.inf
    for policy in (*point.policies[:QUICK], point.policies[-1]):
        plan = first.model_copy(update=policy.fields)
        memory = estimates.memory(plan)
        if memory.fits(most) != "no":
            best = min(best, estimates.time(plan, memory.host).estimate / plan.tokens)
    return best


def _points(question: ModelQuestion) -> Iterator[_Point]:
    number, size = 0, question.size
    tried = policies(question.remat, question.offload, size.gated, size.post_norms)
    names = tuple(name for name in AXES if name != "expert" or size.experts > 1)
    for topology in question.topologies:
        for mesh in named_meshes(topology.devices, names):
            for share in _shares(question, topology):
                yield _Point(question, topology, mesh or (("fsdp", 1),), share, tried, number)
                number += len(tried)


def _shares(question: ModelQuestion, topology: Topology) -> tuple[float, ...]:
    """Sequences per device."""
    if question.global_batch is not None:
        return (question.global_batch / topology.devices,)
    return BATCHES if question.batch_per_device is None else (question.batch_per_device,)


def _tried(point: _Point, seen: dict[Key, int]) -> Iterator[Candidate]:
    if (detail := _not_as_fixed(point)) is not None:
        yield from point.pruned("excluded by what is fixed", detail)
        return
    try:
        first = point.plan(point.policies[0])
        _check_slices(point)
    except RequestError as error:
        yield from point.pruned("does not divide", str(error))
        return
    key = _key(first)
    if (same := seen.setdefault(key, point.number)) != point.number:
        yield from point.pruned(
            "equal to another by renaming",
            StoredFact(kind="other mesh names"),
            same,
        )
        return
    estimates = MeshEstimates(first)
    for place, policy in enumerate(point.policies):
        plan = first.model_copy(update=policy.fields)
        yield _estimated(point, point.number + place, TrainingStep(first, policy), plan, estimates)


def _estimated(
    point: _Point, number: int, step: TrainingStep, plan: Plan, estimates: MeshEstimates
) -> Candidate:
    topology = point.topology
    memory = estimates.memory(plan)
    capacity, most = topology.chip.capacity, point.question.limit(topology)
    fits = memory.fits(most)
    time = None if fits == "no" else estimates.time(plan, memory.host)
    detail = "" if time else over_limit(memory, most, capacity, "as estimated")
    return Candidate(
        number,
        point.name(step.policy),
        plan.target,
        topology.chips,
        "estimated" if time else "pruned",
        None if time else "does not fit",
        detail,
        tokens=plan.tokens,
        predicted=time,
        memory_bytes=memory.peak,
        memory_span=(memory.low, memory.high),
        host_bytes=memory.host,
        fits=fits,
        step=step,
        bound_s=estimates.bound(plan) if time else None,
    )


def _not_as_fixed(point: _Point) -> StoredFact | None:
    """The rule that a mesh breaks of what is fixed; None where it keeps all."""
    sizes = dict(point.mesh)
    for name, size in point.question.fixed:
        if sizes.get(name, 1) != size:
            return StoredFact(
                kind="not as fixed",
                values={"axis": name, "size": sizes.get(name, 1), "fixed": size},
            )
    return None


def _check_slices(point: _Point) -> None:
    """RequestError where slices are not on the axis that passes least between them."""
    slices = point.topology.slices
    name, size = point.mesh[0]
    if slices > 1 and (name not in ("data", "fsdp") or size % slices):
        raise refuse(
            f"{name}={size}", f"does not divide over {slices} slices", f"put data={slices} first"
        )


def _key(plan: Plan) -> Key:
    """What a plan's program depends on but for the names of its mesh axes: two of equal keys shard
    every array alike, over devices in the same order.
    """
    place = {name: number for number, (name, _) in enumerate(plan.mesh)}
    specs = tuple(
        (array.group, array.name, tuple(tuple(place[axis] for axis in axes) for axes in array.axes))
        for array in arrays(plan)
    )
    return plan.target, tuple(size for _, size in plan.mesh), plan.batch_per_device, specs

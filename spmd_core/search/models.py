"""The space of a model's training steps: topology, mesh, batch, policy; pruned or estimated."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice

from spmd_core.base import RequestError
from spmd_core.facts import StoredFact
from spmd_core.machine import Capacity
from spmd_core.plan import Plan
from spmd_core.search.bounds import NEAR, by_bound
from spmd_core.search.candidate import Candidate, TrainingStep, has_words, over_limit
from spmd_core.search.neighborhood import Options, Policy, smallest
from spmd_core.search.question import NO_OPTIONS, ModelQuestion
from spmd_core.search.spaces.model_points import (
    Key,
    MeshPoint,
    check_slices,
    key_of,
    not_as_fixed,
    points_of,
)
from spmd_core.search.standards import PIPELINE, is_published, kind_of_mesh
from spmd_core.time import MeshEstimates

WIDE = 40_000  # candidates that are all estimated: seconds; of more, those of the best meshes
WIDEST = 10_000_000  # a quick look at so many takes minutes: more are refused


def space_size(question: ModelQuestion, is_plain: bool = False) -> int:
    """Candidates of a question, before anything is pruned; counted no further than just above
    WIDEST. `is_plain`: those without options.
    """
    total = 0
    for point in points_of(question):
        total += 0 if is_plain and point.is_extra else len(point.policies)
        if total > WIDEST:
            break
    return total


def candidates(
    question: ModelQuestion, stop: Callable[[], bool] = lambda: False
) -> Iterator[Candidate]:
    """Every candidate, pruned or estimated, the standard shardings first, then in the order of the
    enumeration; of a space beyond `WIDE` those that may be the best of their topology. Until
    `stop`, which is called before each mesh.
    """
    if space_size(question) > WIDE:
        yield from _coarse_to_fine(question, stop, {})
    else:
        yield from _in_order(question, stop)


def plain_candidates(question: ModelQuestion, stop: Callable[[], bool]) -> Iterator[Candidate]:
    """Those candidates whose plans have no options, in the same order, until `stop`."""
    yield from _in_order(question, stop, is_plain=True)


def _in_order(
    question: ModelQuestion, stop: Callable[[], bool], is_plain: bool = False
) -> Iterator[Candidate]:
    seen: dict[Key, int] = {}
    for point in sorted(points_of(question), key=lambda each: _kind(each) in ("", PIPELINE)):
        if stop():
            return
        if not (is_plain and point.is_extra):
            yield from _tried(point, seen)


def _coarse_to_fine(
    question: ModelQuestion, stop: Callable[[], bool], seen: dict[Key, int]
) -> Iterator[Candidate]:
    """The best of each standard sharding, whether it fits or not; then meshes and batches by the
    time that no policy stays below, until that is above the best of its topology by `NEAR`, or
    `WIDE` candidates are reached.
    """
    best: dict[str, float] = {}
    known: set[int] = set()
    meshes = [
        list(points)[::-1]  # the largest batch first: it takes the least per token
        for _, points in groupby(points_of(question), lambda point: (point.topology, point.mesh))
    ]
    pipelines = [points for points in meshes if _kind(points[0]) == PIPELINE]
    meshes, looked = [points for points in meshes if _kind(points[0]) != PIPELINE], 0
    for point in chain(
        _standards(meshes),
        by_bound(meshes, best, question.minimize, stop),
        by_bound(pipelines, best, question.minimize, stop),
    ):
        looked += len(point.policies)
        if stop() or looked > WIDE:
            return
        if point.number not in known:
            known.add(point.number)
            is_standard = _kind(point) or question.minimize == "memory"
            most = math.inf if is_standard else NEAR * best.get(point.topology.target, math.inf)
            for each in _tried(point, seen, most, True):
                if each.fits == "yes" and each.seconds:
                    least = best.get(each.target, math.inf)
                    best[each.target] = min(each.seconds / each.tokens, least)
                yield each
    others = (points[0] for points in (*meshes, *pipelines) if points[0].number not in known)
    for point in islice((each for each in others if not_as_fixed(each) is None), not best):
        yield from _tried(point, seen)  # of an empty space the rule that empties it


def _kind(point: MeshPoint) -> str:
    return kind_of_mesh(point.mesh)


def _standards(meshes: list[list[MeshPoint]]) -> list[MeshPoint]:
    """The best batch and mesh of each standard sharding of each topology in a quick look."""
    kinds: dict[tuple[str, str], tuple[float, MeshPoint]] = {}
    for point in chain(*(each for each in meshes if _kind(each[0]) and not each[0].is_extra)):
        key, score = (point.topology.target, _kind(point)), _quick_look(point)
        if score is None:  # the reason of a standard sharding only where no batch makes a plan
            kinds.setdefault(key, (math.inf, point))
        elif key not in kinds or score <= kinds[key][0]:
            kinds[key] = score, point
    return [point for _, point in kinds.values()]


def candidate_named(question: ModelQuestion, words: Sequence[str]) -> Candidate | None:
    """The first candidate of a space whose name has all the words, pruned or estimated, whether a
    search of it comes to it or not; None where there is none.
    """
    axes = [word for word in words if "=" in word]
    for point in points_of(question):
        if not has_words(point.name(point.policies[0]), axes):
            continue
        for place, policy in enumerate(point.policies):
            if has_words(point.name(policy), words):
                return next(_tried(_alone(point, place), {}))
    return None


def candidate_of(question: ModelQuestion, plan: Plan) -> Candidate | None:
    """The candidate of a space with a plan's mesh, batch and policy; None where there is none."""
    own = (plan.target, plan.mesh, plan.batch_per_device)
    for point in points_of(question):
        if (point.topology.target, point.mesh, point.per_device) != own:
            continue
        for place, policy in enumerate(point.policies):
            if plan.model_copy(update={**NO_OPTIONS, **policy.fields}) == plan:
                return next(_tried(_alone(point, place), {}))
    return None


def candidates_under(
    question: ModelQuestion, mesh: Plan, tried: Sequence[Policy]
) -> Iterator[Candidate]:
    """The candidates of a plan's mesh and batch under these policies, numbered from 0."""
    per_device = mesh.batch_per_device
    if tried:
        point = MeshPoint(question, mesh.topology, mesh.mesh, per_device, tuple(tried), 0, True)
        yield from _tried(point, {})


def _quick_look(point: MeshPoint) -> float | None:
    """Seconds per token of the best of a few policies; infinite where none of them fits, None where
    the sizes make no plan.
    """
    if not_as_fixed(point) is not None:
        return None
    try:
        first = point.plan(point.policies[0])
        check_slices(point)
    except RequestError:
        return None
    estimates = MeshEstimates(first)
    most = point.question.limit(point.topology)
    best = math.inf
    *others, last = point.policies
    for policy in (*(each for each in others if not (each.save or each.offload)), last):
        plan = first.model_copy(update=policy.fields)
        if not plan.divides_into_parts:
            continue
        memory = estimates.memory(plan)
        if memory.fits(most) != "no":
            best = min(best, estimates.time(plan, memory.host).estimate / plan.tokens)
    return best


def _tried(
    point: MeshPoint, seen: dict[Key, int], most: float = math.inf, is_wide: bool = False
) -> Iterator[Candidate]:
    """Its policies, but for those that take more than `most` per token with nothing offloaded; of a
    wide space also for those whose state and kept arrays alone are too large, unless their mesh is
    that of a published recipe.
    """
    if (detail := not_as_fixed(point)) is not None:
        yield from point.pruned("excluded by what is fixed", detail)
        return
    try:  # as options change it, without them
        first = point.plan(
            replace(point.policies[0], options=()) if point.is_extra else point.policies[0]
        )
        check_slices(point)
    except RequestError as error:
        yield from point.pruned("does not divide", str(error))
        return
    key = point.is_extra, *key_of(first)
    if (same := seen.setdefault(key, point.number)) != point.number:
        renamed = StoredFact(kind="other mesh names")
        yield from point.pruned("equal to another by renaming", renamed, same)
        return
    yield from _under_policies(point, first, most, is_wide)


def _under_policies(
    point: MeshPoint, first: Plan, most: float, is_wide: bool
) -> Iterator[Candidate]:
    known: dict[Options, tuple[Plan, MeshEstimates] | str] = {}
    listed, held = list(enumerate(point.policies)), point.question.limit(point.topology)
    # the smallest are in words about what does not fit, and published ones are compared with
    is_all = not is_wide or is_published(point.question.model, first)
    small = point.policies if is_all else smallest(point.policies)
    if most < math.inf:  # what computes least again first: what computes more may be left out
        listed.sort(key=lambda each: -len((*each[1].save, *each[1].offload)))
    for place, policy in listed:
        of_options = known.get(policy.options) or _with_options(point, first, policy)
        known[policy.options] = of_options
        if isinstance(of_options, str):
            yield from _alone(point, place).pruned("does not divide", of_options)
            continue
        plan, estimates = of_options
        plan = plan.model_copy(update=replace(policy, options=()).fields)
        if policy not in small and not estimates.may_fit(plan, held):
            continue
        if most < math.inf and estimates.is_above(plan, most * plan.tokens):
            continue
        yield _estimated(_alone(point, place), TrainingStep(first, policy), plan, estimates, held)


def _with_options(
    point: MeshPoint, first: Plan, policy: Policy
) -> tuple[Plan, MeshEstimates] | str:
    """A plan with the options of a policy, which is checked once for all that have them, and its
    estimates; the rule that it breaks: batch and layers may not divide over options.
    """
    try:
        plan = point.plan(policy) if policy.options else first
    except RequestError as error:
        return str(error)
    return plan, MeshEstimates(plan)


def _alone(point: MeshPoint, place: int) -> MeshPoint:
    """The point with one of its policies."""
    return replace(point, policies=(point.policies[place],), number=point.number + place)


def _estimated(
    point: MeshPoint,
    step: TrainingStep,
    plan: Plan,
    estimates: MeshEstimates,
    most: Capacity,
) -> Candidate:
    topology = point.topology
    memory = estimates.memory(plan)
    fits = memory.fits(most)
    time = None if fits == "no" else estimates.time(plan, memory.host)
    detail = "" if time else over_limit(memory, most, topology.chip.capacity, "as estimated")
    return Candidate(
        point.number,
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

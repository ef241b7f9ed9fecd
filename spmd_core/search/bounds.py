"""The order in which a wide space is looked at: meshes and batches by the time that no policy stays
below.
"""

import contextlib
import heapq
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from spmd_core.base import RequestError
from spmd_core.plan import Plan
from spmd_core.search.neighborhood import Options, Policy, smallest
from spmd_core.search.question import Goal
from spmd_core.search.spaces.model_points import MeshPoint, check_slices, not_as_fixed
from spmd_core.search.standards import PIPELINE, kind_of_mesh
from spmd_core.time import MemoryEstimate, MeshEstimates

NEAR = 1.03  # of the best: what takes longer is left out of a wide space


def by_bound(
    meshes: list[list[MeshPoint]], best: dict[str, float], goal: Goal, stop: Callable[[], bool]
) -> Iterator[MeshPoint]:
    """Meshes and batches that a device may hold, the least bound first, of each mesh from the
    largest such batch on; `best`: seconds per token by topology, as far as they are known. The first
    pipeline of a topology comes whatever its bound, to be compared with.
    """
    heap: list[tuple[float, int, list[MeshPoint], HeldBatch | None]] = []
    begun = set[str]()

    def push(points: list[MeshPoint]) -> None:
        if (held := first_held(points)) is not None:
            rest = points[held.at :]
            heapq.heappush(heap, (held.least_work, rest[0].number, rest, held))

    for points in meshes:
        if stop():
            return
        push(points)
    while heap:
        bound, number, points, held = heapq.heappop(heap)
        target = points[0].topology.target
        is_first = kind_of_mesh(points[0].mesh) == PIPELINE and target not in begun
        if not is_first and goal != "memory" and bound > NEAR * best.get(target, math.inf):
            continue
        if held is not None:  # what its own work does not rule out, its transfers may
            heapq.heappush(heap, (held.least, number, points, None))
            continue
        begun.add(target)
        yield points[0]
        push(points[1:])


class HeldBatch(NamedTuple):
    """The place of a batch of which a device may hold a plan, and its plans under all options."""

    at: int
    estimates: tuple[MeshEstimates, ...]
    tokens: int

    @property
    def least_work(self) -> float:
        """Seconds per token that no policy stays below, by a device's own work."""
        return min(each.least_work() for each in self.estimates) / self.tokens

    @property
    def least(self) -> float:
        """The same with transfers."""
        return min(each.least() for each in self.estimates) / self.tokens


def first_held(points: list[MeshPoint]) -> HeldBatch | None:
    """The first batch of a mesh that makes a plan, of which a device may hold one that saves little;
    None where there is none.
    """
    if not points or not_as_fixed(points[0]) is not None:
        return None
    like = None
    options = dict.fromkeys(each.options for each in points[0].policies)
    small = smallest(points[0].policies)
    most = points[0].question.limit(points[0].topology)
    for at, point in enumerate(points):
        if like is not None:  # what no device holds is as little a plan as what does not divide
            held = _memories(like.model_copy(update={"batch_per_device": point.per_device}), small)
            if all(each.fits(most) == "no" for each in held):
                continue
        plans = [*_dividing(point, options)]
        if not plans:
            continue
        plan = plans[0]
        held = _memories(plan, small) if like is None else ()
        if held and all(each.fits(most) == "no" for each in held):
            like = None if plan.is_in_parts else plan
            if like and all(each.of_any_batch > most.device for each in held):
                return None
            continue
        return HeldBatch(at, tuple(MeshEstimates(each) for each in plans), plan.tokens)
    return None


def _dividing(point: MeshPoint, options: Iterable[Options]) -> Iterator[Plan]:
    """The plans of a point under those of the options that divide its sizes."""
    for each in options:
        with contextlib.suppress(RequestError):
            check_slices(point)
            yield point.plan(Policy("none", options=each))


def _memories(plan: Plan, small: Sequence[Policy]) -> list[MemoryEstimate]:
    held = MeshEstimates(plan).memory
    tried = (plan.model_copy(update=policy.fields) for policy in small)
    return [held(each) for each in tried if each.divides_into_parts]

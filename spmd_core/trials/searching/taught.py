"""What compiled plans show of the memory of their neighbors, which are only estimated."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from spmd_core.base import by_key
from spmd_core.search import Candidate, over_limit
from spmd_core.time import estimate_memory

Key = tuple[object, ...]


def taught(
    known: Iterable[Candidate], candidates: Sequence[Candidate], most: int | None
) -> list[Candidate]:
    """The estimated `candidates` whose memory changes by that of `known`, compiled ones.

    An estimate is scaled by the ratio of compiled to estimated memory of a known candidate with the
    same target and policy, or the same target and mesh; by the largest of several. `most`: bytes
    that a device may hold, below its capacity.
    """
    ratios = by_key(
        (key, each.memory_bytes / estimate_memory(each.plan).peak)
        for each in known
        if each.plan is not None and each.memory_bytes and each.run
        for key in _keys(each)
    )
    if not ratios:
        return []
    changed = []
    for each in candidates:
        if each.stage == "estimated" and each.plan is not None:
            own = [ratio for key in _keys(each) for ratio in ratios.get(key, ())]
            if own and (now := _scaled(each, max(own), most)) != each:
                changed.append(now)
    return changed


def _keys(candidate: Candidate) -> Iterator[Key]:
    plan = candidate.plan
    assert plan is not None
    yield candidate.target, plan.remat, plan.save, plan.offload
    yield candidate.target, plan.mesh, plan.batch


def _scaled(candidate: Candidate, ratio: float, most: int | None) -> Candidate:
    plan = candidate.plan
    assert plan is not None
    memory = estimate_memory(plan).scaled(ratio)
    capacity = plan.topology.chip.capacity
    limit = capacity.limited(most)
    fits = memory.fits(limit)
    now = replace(
        candidate,
        memory_bytes=memory.peak,
        memory_span=(memory.low, memory.high),
        fits=fits,
    )
    if fits != "no":
        return now
    detail = over_limit(memory, limit, capacity, "by neighbors")
    return replace(now, stage="pruned", reason="does not fit", detail=detail)

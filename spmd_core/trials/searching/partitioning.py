"""Estimates candidates by the programs that the compiler partitions, and adds some that constrain a
value of the best one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from spmd_core.base import by_key, firsts_by_key
from spmd_core.facts import Estimate, Shardings
from spmd_core.lab import Asker, Lab
from spmd_core.machine import parse_target
from spmd_core.plan import Plan
from spmd_core.program import NAME as SHARDINGS
from spmd_core.roofline import Calibration, partitioned_s, time_model
from spmd_core.search import Candidate, over_limit, with_constraint
from spmd_core.time import estimate_memory
from spmd_core.trials.remedies.arrays import values_of
from spmd_core.workloads import STRATEGIES

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
        for key in _keys(each.plan)
    )
    if not ratios:
        return []
    changed = []
    for each in candidates:
        if each.stage == "estimated" and each.plan is not None:
            own = [ratio for key in _keys(each.plan) for ratio in ratios.get(key, ())]
            if own and (now := _scaled(each, each.plan, max(own), most)) != each:
                changed.append(now)
    return changed


def _keys(plan: Plan) -> Iterator[Key]:
    yield plan.target, plan.remat, plan.save, plan.offload
    yield plan.target, plan.mesh, plan.batch


def _scaled(candidate: Candidate, plan: Plan, ratio: float, most: int | None) -> Candidate:
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


SHARE = 0.4  # of a budget at most
LEAST_S = 20.0  # the process that partitions starts in a few seconds
LINES, ADDED = 3, 12  # collectives of a program, most bytes first, and constraints on their values
_LOW, _HIGH = 0.5, 2.0  # how far the estimate may be off: a guess, since it only orders


def open_candidates(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Returns those that the compiler can partition, the fastest by estimate first; of those that
    only order their axes otherwise one.
    """
    unlike = firsts_by_key(
        ((each.target, each.strategy, each.point.alike), each)
        for each in sorted(candidates, key=lambda each: (each.seconds or 0.0, each.number))
        if each.point
        and each.stage == "estimated"
        and not each.partitioned
        and STRATEGIES[each.strategy].collectives == "compiler"
        and not parse_target(each.target).is_cluster  # which is faster than one process
    )
    return list(unlike.values())


def partitioned(
    lab: Lab, candidate: Candidate, known: Mapping[str, Calibration], asker: Asker
) -> Candidate:
    """Returns a candidate with the estimate of its partitioned program; as it is where the program
    has no estimate. Simulated devices stand in for those of its target.

    Raises:
      RequestError: the compiler refuses it.
      WorkerError: the process that partitions it ended.
    """
    experiment, cores = candidate.experiment, lab.hardware().cores
    stand_in = experiment.vary(target=f"cpu:{experiment.device_count}")
    times = time_model(experiment, known.get(candidate.target), cores)
    program = lab.partition(stand_in, asker)
    if program.operations is None:
        return candidate
    times = times.for_order(experiment, cores)
    parts = partitioned_s(experiment, program.collectives, program.operations, times)
    if parts is None:
        return candidate
    seconds = sum(parts.values())
    return replace(
        candidate,
        partitioned=True,
        parts=tuple(parts.items()),
        predicted=Estimate(low=_LOW * seconds, estimate=seconds, high=_HIGH * seconds),
    )


def constrained(lab: Lab, best: Candidate, number: int) -> Iterator[Candidate]:
    """Yields a compiled candidate with a constraint on the value of a line of its collectives,
    numbered from `number`.
    """
    result = lab.result(best.run) if best.run else None
    text = lab.texts(result.run, best.strategy).get(SHARDINGS) if result else None
    if result is None or not text:
        return
    steps, base = Shardings.model_validate_json(text).steps, best.experiment
    listed = sorted(
        result.strategies[best.strategy].collectives or (),
        key=lambda each: -each.bytes * each.times,
    )
    lines = islice({each.source: each for each in listed if each.source}.values(), LINES)
    values = (value for each in lines for value in values_of(base, each, steps))
    for at, value in enumerate(islice(values, ADDED)):
        yield with_constraint(best, number + at, value.source, value.spec)

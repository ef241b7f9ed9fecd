"""Prefill apart from decode: two meshes, the cache that passes between them, the best split of chips."""

from dataclasses import dataclass

from spmd_core.plan import ServedPlan
from spmd_core.search.serving import plans_of
from spmd_core.search.serving_question import ServingQuestion
from spmd_core.time import (
    StepLoad,
    dcn_bandwidth,
    passed_bytes,
    pool_of,
    prompt_time,
    step_time,
)


@dataclass(frozen=True, slots=True)
class Split:
    """So many chips for prompts, and the others for decode, of one kind.

    Attributes:
      prefill: the plan of the prompts' chips.
      decode: the plan of the others.
      keeps: True if it keeps the limits.
      requests_per_s: that both sides keep up with.
      tokens_per_s_per_chip: output tokens, of all chips.
      tpot_s: a decode step, which no prompt delays.
      ttft_s: of a prompt alone, and its cache's way to the other side.
      passed_bytes: of one request's cache.
      passed_s: of these, over the network of the side that has less of it.
      prefill_idle: the share of its time that a side waits for the other, and `decode_idle`.
    """

    prefill: ServedPlan
    decode: ServedPlan
    keeps: bool
    requests_per_s: float
    tokens_per_s_per_chip: float
    tpot_s: float
    ttft_s: float
    passed_bytes: float
    passed_s: float
    prefill_idle: float
    decode_idle: float


@dataclass(frozen=True, slots=True)
class _Side:
    """The best plan of some chips for one side: within its limit, requests a second, seconds of one."""

    plan: ServedPlan
    keeps: bool
    rate: float
    seconds: float


def splits(question: ServingQuestion) -> tuple[Split, ...]:
    """Returns the best plan of each split of the chips of one kind, most tokens a chip first; those
    within the limits before others.

    Raises:
      RequestError: no sizes divide over any mesh of these chips.
    """
    first, second = dict[tuple[str, str], _Side](), dict[tuple[str, str], _Side]()
    for plan in plans_of(question):
        for kept, side in ((first, _prefill(question, plan)), (second, _decode(question, plan))):
            key = plan.target, plan.kv_dtype  # the cache that passes has one
            best = kept.get(key)
            if side and (best is None or (side.keeps, side.rate) > (best.keeps, best.rate)):
                kept[key] = side
    most = max((each.chips for each in question.topologies), default=0)
    pairs = [
        _split(question, one, other)
        for one in first.values()
        for other in second.values()
        if one.plan.topology.chip is other.plan.topology.chip
        and one.plan.kv_dtype == other.plan.kv_dtype
        and one.plan.topology.chips + other.plan.topology.chips <= most
    ]
    return tuple(sorted(pairs, key=lambda each: (not each.keeps, -each.tokens_per_s_per_chip)))


def _prefill(question: ServingQuestion, plan: ServedPlan) -> _Side | None:
    load = question.load
    if pool_of(plan, load.input.high).requests < 1:
        return None
    seconds = prompt_time(plan, load, plan.along("data")).seconds * load.input.mean / load.chunk
    keeps = not question.ttft_s or seconds <= question.ttft_s
    return _Side(plan, keeps, plan.replicas * plan.along("data") / seconds, seconds)


def _decode(question: ServingQuestion, plan: ServedPlan) -> _Side | None:
    load = question.load
    places = min(-(-load.concurrency // plan.replicas), pool_of(plan, load.longest).requests)
    if places < 1:
        return None
    step = step_time(plan, StepLoad(places, load.context)).seconds / load.accepted
    keeps = not question.tpot_s or step <= question.tpot_s
    return _Side(plan, keeps, places * plan.replicas / step / load.output.mean, step)


def _split(question: ServingQuestion, first: _Side, second: _Side) -> Split:
    load, rate = question.load, min(first.rate, second.rate)
    chips = first.plan.topology.chips + second.plan.topology.chips
    nbytes = passed_bytes(first.plan, load.input.mean)
    way = min(
        dcn_bandwidth(each.plan.topology) * each.plan.topology.chips / each.plan.replicas
        for each in (first, second)
    )
    begins = first.seconds + nbytes / way
    return Split(
        first.plan,
        second.plan,
        second.keeps and begins <= (question.ttft_s or begins),
        rate,
        rate * load.output.mean / chips,
        second.seconds,
        begins,
        nbytes,
        nbytes / way,
        1 - rate / first.rate,
        1 - rate / second.rate,
    )

"""A step whose batch comes in parts: microbatches whose gradients are added up, or that pass the
stages of a pipeline; in the form of a step that is one pass.

Each stage is estimated as a plan of its layers and one microbatch. The first has the embedding, the
last the logits. Weights are gathered, and gradients added over shards of the batch, for each
microbatch; the optimizer follows the last one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from operator import attrgetter
from typing import NamedTuple

from spmd_core.base import sums_by_key
from spmd_core.facts import Collective, Estimate, Prediction, StoredFact
from spmd_core.plan import SCHEDULES, STAGE, Basis, Plan, state_share
from spmd_core.time.cost.links import NOMINAL, Paths, paths_along, permute_s, straggling
from spmd_core.time.estimate.memory import MemoryEstimate, estimate_memory as memory_of_a_pass
from spmd_core.time.estimate.optimizers import BYTES, moment_bytes
from spmd_core.time.estimate.shapes import Shapes, recomputed, shapes_of, shapes_under
from spmd_core.time.estimate.step import (
    StepParts,
    estimate_step as step_of_a_pass,
    prediction_of,
    step_mfu,
    step_parts,
)
from spmd_core.time.estimate.step_transfer import is_of_update
from spmd_core.time.pipeline import SimulatedPipeline, simulate_pipeline

WAITS = "wait: stages"  # among a step's shares: what a stage idles


class _Microbatch(NamedTuple):
    """Parts of the step of a microbatch; F, B, W of its layers and shares of the update, in s; its
    memory, and its time as a step of one pass.
    """

    parts: StepParts
    seconds: tuple[float, float, float]
    update: Mapping[str, float]
    memory: MemoryEstimate
    time: Estimate


class _Stage(NamedTuple):
    """A microbatch of a stage: F, B and W in seconds, shares of the update, memory with the
    microbatches that it holds, and the one it is like.
    """

    seconds: tuple[float, float, float]
    update: Mapping[str, float]
    memory: MemoryEstimate
    one: _Microbatch


@lru_cache(maxsize=256)  # each table and picture of a plan shows it
def estimate_step(plan: Plan) -> Prediction:
    """What compiling a plan would predict of its step, about."""
    return _of_parts(plan) if plan.is_in_parts else step_of_a_pass(plan)


def estimate_memory(plan: Plan, parameters: float | None = None) -> MemoryEstimate:
    """The peak of a plan's step: of a pipeline that of the stage with the most."""
    if not plan.is_in_parts:
        return memory_of_a_pass(plan, parameters)
    if plan.stages == 1:  # its times need no work
        one = _one(plan, plan.size.layers, True)
        return _held(plan, memory_of_a_pass(one, parameters), 1.0)
    return max((each.memory for each in _stages(plan, None)), key=attrgetter("peak"))


def pipeline_of(plan: Plan) -> SimulatedPipeline:
    """When each stage of a plan works on each microbatch; without its update."""
    return _simulated(plan, _stages(plan, None))


def _simulated(plan: Plan, stages: Sequence[_Stage]) -> SimulatedPipeline:
    hop = _hop_s(plan) if plan.stages > 1 else 0.0
    return simulate_pipeline(
        SCHEDULES[plan.schedule],
        plan.parts,
        [each.seconds for each in stages],
        (hop,) * plan.stages,
        plan.repeats,
    )


def time_in_parts(plan: Plan, again: frozenset[str] | None = None) -> Estimate:
    """Seconds of such a step, its interval as wide as that of the slowest stage; `again`: names of
    what is computed again, those of the plan unless given.
    """
    stages = _stages(plan, again)
    if plan.stages == 1:  # one after the other
        return _time(plan, stages, plan.parts * sum(stages[0].seconds))
    return _time(plan, stages, _simulated(plan, stages).seconds)


def _time(plan: Plan, stages: Sequence[_Stage], passes_s: float) -> Estimate:
    update = max(sum(each.update.values()) for each in stages)
    seconds = (passes_s + update) * (1 + straggling(plan.topology))
    one = _slowest(stages).one.time
    low, high = (seconds * each / one.estimate for each in (one.low, one.high))
    return Estimate(low=low, estimate=seconds, high=high)


def _slowest(stages: Sequence[_Stage]) -> _Stage:
    return max(stages, key=lambda each: sum(each.seconds))


def _of_parts(plan: Plan) -> Prediction:
    stages = _stages(plan, None)
    slowest, simulated = _slowest(stages), _simulated(plan, stages)
    time = _time(plan, stages, simulated.seconds)
    seconds = time.estimate
    memory, capacity = estimate_memory(plan), plan.topology.chip.capacity
    one = prediction_of(slowest.one.parts, slowest.one.memory)
    shares = {name: plan.parts * each for name, each in one.shares_s.items()}
    for name, each in slowest.update.items():  # follows the last microbatch alone
        shares[name] = shares.get(name, 0.0) - (plan.parts - 1) * each
    held = {"peak": memory.peak, "host": memory.host}
    held["missing"] = max(0, memory.peak - capacity.device)
    facts, late = one.facts or (), sum(slowest.update.values())
    if plan.stages > 1:
        shares[WAITS] = max(0.0, seconds - sum(shares.values()))
        most = seconds / sum(shares.values())  # of tables a stage has a part, and its plan all
        shares = {name: most * each for name, each in shares.items()}
        title, parts = SCHEDULES[plan.schedule].title, plan.parts
        values = {"title": title, "parts": parts, "share": simulated.bubble}
        named = (each for each in facts if each.kind != "not compiled")
        facts = (StoredFact(kind="pipeline", values=values), *named)
    repeated = (
        each.model_copy(
            update={
                name: value * (1 if is_of_update(each.name or "") else plan.parts)
                for name in ("count", "bytes_total", "seconds_total", "exposed_total_s")
                if (value := getattr(each, name)) is not None
            }
        )
        for each in one.collectives
    )
    update_of_one = {
        "facts": facts,
        "fits": memory.is_held(capacity),
        "memory_bytes": one.memory_bytes.model_copy(update=held),
        "shares_s": shares,
        "collectives": (*repeated, *_hops(plan)),
        "before_compiling": memory.known(capacity),
    }
    return one.model_copy(update=update_of_one | _times(plan, one, time, late))


def _times(plan: Plan, one: Prediction, time: Estimate, update: float) -> dict[str, object]:
    """What follows from the time of a step, from the prediction of one microbatch, and from the
    seconds of the update in it.
    """
    bounds, chips, seconds = one.bounds_s, plan.topology.chips, time.estimate
    assert one.predicted_s is not None and bounds is not None
    times, mfu = seconds / one.predicted_s.estimate, step_mfu(plan, seconds)
    alone = min(seconds, bounds.overlapped * plan.parts - update * (plan.parts - 1))
    in_turn = max(seconds, bounds.sequential * times)
    return {
        "predicted_s": time,
        "bounds_s": bounds.model_copy(update={"overlapped": alone, "sequential": in_turn}),
        "mfu": mfu,
        "mfu_causal": mfu * plan.causal_share,
        "tflops_per_chip": plan.flops / (chips * seconds) / 1e12,
        "tokens_per_s_per_chip": plan.tokens / (chips * seconds),
        "chip_seconds": chips * seconds,
    }


def _hops(plan: Plan) -> Iterator[Collective]:
    """What stages pass to one another: a microbatch forward, and its gradient back."""
    if plan.stages == 1:
        return
    count, nbytes, ways = 2 * plan.parts * plan.repeats, int(_passed(plan)), _ways(plan)
    seconds, exposed = _hop_s(plan), 0.0
    yield Collective(
        kind="collective-permute",
        axes=(STAGE,),
        bytes=nbytes,
        count=count,
        bytes_total=nbytes * count,
        name="pass a microbatch on",
        reason=f"a microbatch passes from stage to stage along {STAGE}, and its gradient back",
        asynchronous=True,
        seconds=seconds,
        exposed_s=exposed,
        bound_s=permute_s(plan.topology, ways, nbytes, NOMINAL),
        seconds_total=seconds * count,
        exposed_total_s=exposed,
        route=", ".join(ways.used),
    )


def _worked_out(plan: Plan, again: frozenset[str] | None) -> tuple[_Stage, ...]:
    """Every stage of a plan, from the first; layers that are left over are one more of the first
    stages each.
    """
    count, layers, schedule = plan.stages, plan.size.layers, SCHEDULES[plan.schedule]
    of_last = _microbatch(_one(plan, layers // count, True), again)
    known = {(layers // count, True): of_last}
    # of five matmuls with a table two are the embedding's; on GPUs its rows are gathered
    logits = 1.0 if plan.topology.chip.is_gpu else 3 / 5
    stages = []
    for stage in range(count):
        is_first, is_last = stage == 0, stage == count - 1
        key = (layers // count + (stage < layers % count), is_last)
        if key not in known:
            known[key] = _microbatch(_one(plan, *key), again)
        one = known[key]
        tables = (
            of_last.parts.work.tables.seconds * (logits * is_last + (1 - logits) * is_first) / 3
        )
        held = schedule.held(count, plan.parts, plan.repeats, stage) if count > 1 else 1.0
        forward, backward, weights = (each + tables for each in one.seconds)
        memory = _held(plan, one.memory, held, is_first)
        stages.append(_Stage((forward, backward, weights), one.update, memory, one))
    return tuple(stages)


# worked out for memory, used again for time
_stages: Callable[..., tuple[_Stage, ...]] = lru_cache(maxsize=8)(_worked_out)  # pyright: ignore[reportAssignmentType]


def _one(plan: Plan, layers: int, has_logits: bool) -> Plan:
    """One microbatch of a stage as a plan; without logits a vocabulary of one token."""
    saved = {name: getattr(plan, name) for name in ("remat", "save", "offload")}
    return _under_any_policy(plan.basis, layers, has_logits).model_copy(update=saved)


@lru_cache(maxsize=64)
def _under_any_policy(basis: Basis, layers: int, has_logits: bool) -> Plan:
    plan = basis.plan
    update: dict[str, object] = {
        "batch_per_device": plan.batch_per_device / plan.parts,
        "microbatches": 1,
        "schedule": Plan.model_fields["schedule"].default,  # alone it has none
        "repeats": 1,
        "layers": layers,
    }
    if plan.stages > 1:
        update |= {"tied": True}
        if not has_logits:
            update["sizes"] = (*(each for each in plan.sizes if each[0] != "vocab"), ("vocab", 1))
    return plan.model_copy(update=update)


@lru_cache(maxsize=64)
def _shapes(basis: Basis) -> Shapes:
    return shapes_of(basis.plan)


@lru_cache(maxsize=32)  # schedules of one mesh have it in common
def _microbatch(one: Plan, again: frozenset[str] | None) -> _Microbatch:
    shapes, memory = shapes_under(_shapes(one.basis), one), memory_of_a_pass(one)
    parts = step_parts(shapes, recomputed(one) if again is None else again)
    work, rest = parts.work, [each for each in parts.moved if not is_of_update(each.name)]
    apart = parts if len(rest) == len(parts.moved) else replace(parts, moved=rest)
    waits = apart.exposed(memory.host).seconds
    passes = work.forward.seconds + work.recomputed.seconds + work.backward.seconds
    forward = work.forward.seconds * (1 + waits / passes)
    weights = work.backward.matmul / 2
    seconds = (forward, passes + waits - forward - weights, weights)
    update = {"matmul": work.update.matmul, "memory": work.update.memory}
    update |= sums_by_key(
        (f"wait: {each.kind}", each.count * each.seconds)
        for each in parts.moved
        if is_of_update(each.name)
    )
    time = parts.time(memory.host)
    return _Microbatch(parts, seconds, update, memory, time)


def _held(
    plan: Plan, memory: MemoryEstimate, held: float, is_first: bool = False
) -> MemoryEstimate:
    """The peak of a stage: of one microbatch, with what others have kept, the gradients that are
    added up, and of a pipeline's first stage the embedding.
    """
    kept, state = (memory.parts[name] for name in ("kept by the forward pass", _STATE))
    own = BYTES[plan.parameter_dtype]
    share = state_share(plan)
    each = (own + moment_bytes(plan)) * share
    more = {"other microbatches": (held - 1) * kept}
    if plan.parts > 1:
        # those of a stage are scattered once a step, others with each microbatch
        complete = own * state / each
        more["gradients that are added up"] = complete * (share if plan.stages == 1 else 1)
        if plan.stages > 1:
            more["complete gradients of a microbatch"] = complete * (1 - share)
    if plan.stages > 1 and is_first:
        layers = plan.size.layers // plan.stages + (plan.size.layers % plan.stages > 0)
        table = memory_of_a_pass(_one(plan, layers, True)).parts[_STATE] - state
        more["embedding"] = table * (1 + (2 + own) / each)
    extra = int(sum(more.values()))
    return MemoryEstimate(
        memory.peak + extra,
        memory.low + extra,
        memory.high + extra,
        int(memory.host * held),
        memory.parts | {name: int(value) for name, value in more.items()},
    )


_STATE = "parameters and optimizer"


def _passed(plan: Plan) -> float:
    return shapes_of(_one(plan, 1, False)).arrays.stream


def _hop_s(plan: Plan) -> float:
    return permute_s(plan.topology, _ways(plan), _passed(plan))


def _ways(plan: Plan) -> Paths:
    return paths_along(plan.topology, plan.mesh, plan.device_order, STAGE)

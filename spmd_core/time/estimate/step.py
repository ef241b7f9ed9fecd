"""A training step's prediction from its plan alone, in the form of a compiled one."""

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from spmd_core.base import sums_by_key
from spmd_core.facts import (
    MAY_TAKE_LONGER,
    RINGS,
    TOOK_LONGER,
    Binds,
    Bounds,
    Collective,
    Estimate,
    PredictedMemory,
    Prediction,
    StoredFact,
)
from spmd_core.machine import Gpu
from spmd_core.plan import ModelSize, Plan
from spmd_core.program import generic
from spmd_core.time.cost.constants import (
    KERNEL_HIGH,
    KERNEL_LOW,
    MATMUL_OFF,
    MEMORY_HIGH,
    OVERLAP_HIGH,
    OVERLAP_LOW,
    UNMODELLED,
    hbm_share,
    taken_memory,
)
from spmd_core.time.cost.links import host_s, straggling
from spmd_core.time.estimate.activation_transfers import activation_transfers
from spmd_core.time.estimate.constants import (
    ENDS,
    MOSTLY,
    RING_OFF,
    SHARDED_ABOVE,
    SLICES_ABOVE,
    SMALL_OFF,
    TENSOR_ABOVE,
    TOOK_LONGER_ON,
    WIDE_TENSOR,
    WITHOUT_COMPILING,
)
from spmd_core.time.estimate.memory import MemoryEstimate, estimate_memory
from spmd_core.time.estimate.shapes import Shapes, recomputed, shapes_of
from spmd_core.time.estimate.step_transfer import GRADIENT, StepTransfer, as_one, in_turn
from spmd_core.time.estimate.weight_transfers import weight_transfers
from spmd_core.time.estimate.work import (
    DeviceSeconds,
    Matmuls,
    StepWork,
    all_matmuls,
    mean_matmuls,
    routed_share,
    step_work,
    table_s,
)
from spmd_core.time.gpu.constants import CHANNELS, COMBINED

_MOSTLY_ROUTED = 0.4  # of the layers' matmuls: more is not of the model, but of its routes


@dataclass(frozen=True, slots=True)
class Exposed:
    """Seconds of the step that each transfer holds up, in their order; and that the host does."""

    transfers: tuple[float, ...]
    host: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return sum(self.transfers) + self.host


@dataclass(frozen=True, eq=False)
class StepParts:
    """The work of a step and its transfers; what plans with the same have in common is worked out
    once.
    """

    shapes: Shapes
    work: StepWork
    moved: list[StepTransfer]

    def exposed(self, offloaded: int) -> Exposed:
        """What waits, with `offloaded` bytes to the host and back."""
        work, one_way = self.work, host_s(self.shapes.chip, offloaded)
        back = work.recomputed.seconds + work.backward.seconds
        host = max(0.0, one_way - work.forward.seconds) + max(0.0, one_way - back)
        return Exposed(_waits(self), host)

    def time(self, offloaded: int) -> Estimate:
        """Seconds of a step with `offloaded` bytes to the host and back."""
        shapes, exposed = self.shapes, self.exposed(offloaded)
        seconds = (self.work.total.seconds + exposed.seconds) * (1 + straggling(shapes.topology))
        rings = RING_OFF * seconds if shapes.has_rings else 0.0
        hidden = self.network_s - sum(exposed.transfers)
        low, high = _interval(shapes, self.work.total, hidden, exposed.seconds, seconds, rings)
        return Estimate(
            low=low,
            estimate=seconds,
            high=max(
                high, (1 + _above(shapes, offloaded)[0]) * seconds, _took_longer(shapes) * seconds
            ),
        )

    @cached_property
    def network_s(self) -> float:
        """Seconds of all transfers, one after the other."""
        return sum(each.seconds * each.count for each in self.moved)


def estimate_step(plan: Plan) -> Prediction:
    """What compiling a plan would predict of its step, about; see docs/prediction.md for how near."""
    return prediction_of(step_parts(shapes_of(plan), recomputed(plan)), estimate_memory(plan))


def prediction_of(parts: StepParts, memory: MemoryEstimate) -> Prediction:
    """A step of these parts that takes so much memory, in the form of a compiled one."""
    shapes, plan, work, moved = parts.shapes, parts.shapes.plan, parts.work, parts.moved
    exposed, time = parts.exposed(memory.host), parts.time(memory.host)
    seconds = time.estimate
    mfu = step_mfu(plan, seconds)
    topology, chip = shapes.topology, shapes.chip
    capacity = chip.capacity
    missing = max(0, memory.peak - capacity.device)
    late = (work.total.seconds + exposed.seconds) * straggling(topology)
    shares = _shares(work, moved, exposed, late)
    return Prediction(
        compiled=False,
        fits=memory.is_held(capacity),
        memory_bytes=PredictedMemory(
            peak=memory.peak, host=memory.host, capacity=capacity.device, missing=missing
        ),
        host_capacity_bytes=capacity.host,
        predicted_s=time,
        bounds_s=_bounds(parts, seconds),
        mfu=mfu,
        mfu_causal=mfu * plan.causal_share,
        tflops_per_chip=plan.flops / topology.chips / seconds / 1e12,
        tokens_per_s_per_chip=plan.tokens / topology.chips / seconds,
        chip_seconds=topology.chips * seconds,
        binds=_binds(shares),
        shares_s=shares,
        collectives=_collectives(moved, exposed, plan.axis_sizes),
        facts=_facts(shapes, memory, work.total.kernel / seconds),
        before_compiling=memory.known(capacity),
    )


def _facts(shapes: Shapes, memory: MemoryEstimate, attention: float) -> tuple[StoredFact, ...]:
    facts = [StoredFact(kind="not compiled"), *taken_memory(shapes.chip, memory.peak, memory.host)]
    if attention > MOSTLY and not shapes.chip.is_gpu:
        facts.append(StoredFact(kind="mostly attention", values={"share": attention}))
    if (routed := routed_share(shapes)) > _MOSTLY_ROUTED:
        facts.append(StoredFact(kind="routed by matmuls", values={"share": routed}))
    if shapes.has_rings:
        facts.append(StoredFact(kind=RINGS))
    above, what = _above(shapes, memory.host)
    if above:
        facts.append(StoredFact(kind=MAY_TAKE_LONGER, values={"what": what, "times": 1 + above}))
    if published := TOOK_LONGER_ON.get(shapes.chip.generation):
        count, least, most = published
        values = {"count": count, "least": least, "most": most}
        facts.append(StoredFact(kind=TOOK_LONGER, values=values))
    return tuple(facts)


def step_mfu(plan: Plan, seconds: float) -> float:
    """Model FLOPs utilization of a plan's step in so many seconds, by the nominal peak."""
    topology = plan.topology
    return plan.flops / (topology.chips * topology.chip.peak_flops * seconds)


@lru_cache(maxsize=16)
def _matmuls(shapes: Shapes) -> tuple[Mapping[str, float], Sequence[Matmuls]]:
    """Seconds of matmuls of a layer on average, and of each kind of layer."""
    of_layers = all_matmuls(shapes)
    return {**mean_matmuls(shapes, of_layers), "logits": table_s(shapes)}, of_layers


@lru_cache(maxsize=64)
def step_parts(shapes: Shapes, again: frozenset[str]) -> StepParts:
    """The parts of a step whose backward pass computes these names again."""
    matmuls, of_layers = _matmuls(shapes)
    forward = [each for each, _ in of_layers]
    moved = [
        *weight_transfers(shapes, matmuls, again),
        *activation_transfers(shapes, forward, again),
    ]
    work = step_work(shapes, again, of_layers)
    if shapes.chip.is_gpu:
        attention = sum(matmuls.get(name, 0.0) for name in ("query", "key", "value", "out"))
        attention += work.forward.kernel / shapes.size.all_layers
        moved = in_turn(shapes, as_one(shapes, moved), attention)
    return StepParts(shapes, work, moved)


def _above(shapes: Shapes, offloaded: int) -> tuple[float, str]:
    """(share of a step that compiled plans of this kind took above their estimate, what they do); 0
    and "" where none did.
    """
    if shapes.chip.is_gpu:  # what is known of them was compiled for TPUs
        return 0.0, ""
    if offloaded and shapes.along("data") % shapes.topology.slices:
        return SLICES_ABOVE, "offload over slices"
    if shapes.tensor >= WIDE_TENSOR:
        return TENSOR_ABOVE, f"have tensor={shapes.tensor}"
    if shapes.plan.shard_optimizer_over_data:
        return SHARDED_ABOVE, "shard the optimizer over data"
    return 0.0, ""


def _took_longer(shapes: Shapes) -> float:
    """Times its estimate that a published step on such chips took at most, where all took longer."""
    return TOOK_LONGER_ON.get(shapes.chip.generation, (0, 1.0, 1.0))[2]


@lru_cache(maxsize=64)
def _waits(parts: StepParts) -> tuple[float, ...]:
    """Seconds that each transfer holds up: all that nothing hides, and what is left of the rest
    beside the work it may hide under.
    """
    shapes, work, moved = parts.shapes, parts.work, parts.moved
    ways = _ways(work)
    passes = [_passes(each, *ways) for each in moved]
    beside = [
        (each.seconds * each.count, own)
        for each, own in zip(moved, passes, strict=True)
        if each.beside
    ]
    sent = [sum(seconds * own[way] for seconds, own in beside) for way in range(3)]
    late_s = [0.0] * 3
    for part, own in _loops(shapes, work):
        free = 0.0  # of what is computed again, seconds that hide no gather
        for way in range(3):
            left = own[way] + free - part * sent[way]
            late_s[way] -= min(0.0, left)
            free = max(0.0, left) if way == 1 else 0.0
    lates = [
        max(_at_ends(shapes), late / all_) if all_ else 0.0
        for late, all_ in zip(late_s, sent, strict=True)
    ]
    if isinstance(shapes.chip, Gpu):  # what it hides takes multiprocessors from the work
        lates = [late + (1 - late) * CHANNELS / shapes.chip.sms for late in lates]
    return tuple(
        each.seconds
        * each.count
        * (max(sum(map(operator.mul, own, lates)), each.late) if each.beside else each.alone)
        for each, own in zip(moved, passes, strict=True)
    )


def _loops(shapes: Shapes, work: StepWork) -> list[tuple[float, tuple[float, ...]]]:
    """(share of all layers' weights, seconds that hide transfers of each pass) of every block that is
    repeated: what one sends hides under its own work alone.
    """
    return [
        (part, tuple(sum(times * work.hiding[layer][way] for layer in layers) for way in range(3)))
        for part, layers, times in _blocks(shapes)
    ]


@lru_cache(maxsize=16)
def _blocks(shapes: Shapes) -> tuple[tuple[float, Sequence[ModelSize], int], ...]:
    """(share of all layers' weights, its layers, how many there are) of every block."""
    nbytes = {layer.size: layer.layer_weight_bytes for layer, _ in shapes.layers}
    size = shapes.size
    blocks = [
        ([size.layer(kind) for kind in kinds], times)
        for kinds, times in (*size.stages, (size.kinds[-1:], size.mtp_layers))
    ]
    total = sum(times * nbytes[layer] for layers, times in blocks for layer in layers)
    return tuple(
        (sum(times * nbytes[layer] for layer in layers) / total, layers, times)
        for layers, times in blocks
    )


_Parts = tuple[float, float, float]  # of a transfer: forward, computed again, backward


def _ways(work: StepWork) -> tuple[_Parts, _Parts, _Parts]:
    """Returns the parts of a transfer that the forward pass sends, what is computed again, and the
    backward pass: of weights' gathers half, and of the other half what is needed to compute again;
    of gradients nothing before the backward pass; of others by the work of the passes.
    """
    again = min(1.0, work.recomputed.matmul / work.forward.matmul)
    total = work.forward.seconds + work.recomputed.seconds + work.backward.seconds
    first = work.forward.seconds / total
    return (0.5, again / 2, (1 - again) / 2), (0.0, 0.0, 1.0), (first, 0.0, 1 - first)


def _passes(each: StepTransfer, gathers: _Parts, sums: _Parts, others: _Parts) -> _Parts:
    if each.name.startswith("gather "):
        return gathers
    return sums if each.op_name == GRADIENT else others


def _at_ends(shapes: Shapes) -> float:
    """The share of transfers that has no work beside it: the first weights and the last gradients;
    on GPUs of as many layers as are sent as one.
    """
    if not shapes.chip.is_gpu:
        return ENDS / shapes.size.all_layers
    as_one = max(1.0, COMBINED / max(1.0, shapes.layer_weight_bytes))
    return min(1.0, as_one / shapes.size.all_layers)


def _interval(
    shapes: Shapes,
    total: DeviceSeconds,
    hidden: float,
    exposed: float,
    seconds: float,
    rings: float,
) -> tuple[float, float]:
    """(low, high): independent deviations, as for a compiled step, and one for what only compiling
    shows; `rings`: that of collective matmuls.
    """
    small = 0.0 if shapes.chip.is_gpu else SMALL_OFF[0] + SMALL_OFF[1] * shapes.size.all_layers
    rest = (UNMODELLED * seconds, WITHOUT_COMPILING * seconds, rings, small)
    down = (
        total.matmul * (1 - 1 / MATMUL_OFF),
        total.kernel * (1 - 1 / KERNEL_LOW),
        total.memory * (1 - hbm_share(shapes.chip)),
        OVERLAP_LOW * exposed,
        *rest,
    )
    up = (
        total.matmul * (MATMUL_OFF - 1),
        total.kernel * (KERNEL_HIGH - 1),
        total.memory * (MEMORY_HIGH - 1),
        OVERLAP_HIGH * hidden,
        *rest,
    )
    return max(0.0, seconds - math.hypot(*down)), seconds + math.hypot(*up)


def _bounds(parts: StepParts, seconds: float) -> Bounds:
    busy = sums_by_key(
        (name, each.seconds * each.count) for each in parts.moved for name in each.where.resources
    )
    alone = parts.work.total.seconds
    return Bounds(
        overlapped=min(seconds, max(alone, *busy.values(), 0.0)),
        sequential=max(seconds, alone + parts.network_s),
    )


def _shares(
    work: StepWork, moved: list[StepTransfer], exposed: Exposed, late: float
) -> dict[str, float]:
    total = work.total
    shares = {"matmul": total.matmul, "kernel": total.kernel, "memory": total.memory}
    shares |= sums_by_key(
        (f"wait: {each.kind}", wait) for each, wait in zip(moved, exposed.transfers, strict=True)
    )
    shares |= {"wait: host": exposed.host, "wait: slices": late}
    return {name: seconds for name, seconds in shares.items() if seconds > 0}


def _binds(shares: dict[str, float]) -> Binds:
    resources: dict[str, Binds] = {
        "matmul": "compute",
        "kernel": "compute",
        "memory": "memory",
        "wait: host": "host",
        "wait: send": "data centre network",
        "wait: slices": "data centre network",
    }
    groups = sums_by_key(
        (resources.get(name, "interconnect"), seconds) for name, seconds in shares.items()
    )
    return max(groups, key=lambda name: groups[name])


def _collectives(
    moved: list[StepTransfer], exposed: Exposed, sizes: Mapping[str, int]
) -> tuple[Collective, ...]:
    collectives = [
        Collective(
            kind=each.kind,
            asked=each.asked,
            axes=each.axes,
            bytes=int(each.nbytes),
            count=each.count,
            bytes_total=int(each.nbytes) * each.count,
            op=each.op_name or None,
            name=each.name,
            group_size=math.prod(sizes.get(axis, 1) for axis in each.axes) or None,
            reason=generic(each, each.name),
            asynchronous=bool(each.beside),
            seconds=each.seconds,
            exposed_s=wait / max(1, each.count),
            bound_s=each.bound_s,
            seconds_total=each.seconds * each.count,
            exposed_total_s=wait,
            route=each.where.words,
        )
        for each, wait in zip(moved, exposed.transfers, strict=True)
    ]
    return tuple(sorted(collectives, key=lambda each: -each.total_s))

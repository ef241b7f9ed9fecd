"""How long one step of serving takes: so many requests decode, and a chunk of prompts beside them."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from spmd_core.facts import Estimate
from spmd_core.machine import Gpu
from spmd_core.plan import ModelSize, ServedPlan
from spmd_core.time.cost.constants import (
    MATMUL_OFF,
    MEMORY_HIGH,
    OPERATION_S,
    UNMODELLED,
    hbm_s,
)
from spmd_core.time.cost.flops import Matmul, matmul_s
from spmd_core.time.cost.kernels import attention_cost
from spmd_core.time.cost.links import collective_s, route_of
from spmd_core.time.estimate.constants import (
    GATHERED_STREAM_PASSES,
    GPU_STREAM_PASSES,
    HALF_BYTES,
    LARGE_BYTES,
    WITHOUT_COMPILING,
)
from spmd_core.time.gpu.constants import FLASH_FORWARD, KERNEL_S, LAUNCH_S
from spmd_core.time.gpu.nccl import Caller
from spmd_core.time.serving.assumed import (
    BLOCK_ROWS,
    COLLECTIVE_S,
    EXPERT_OPERATIONS,
    FORWARD,
    GPU_OPERATIONS,
    KERNEL_BLOCK,
    KERNEL_OFF,
    LOGIT_PASSES,
    OPERATIONS,
    PAGE_S,
    PREFILL_SHARE,
    SEQUENCE_S,
    STATE_FLOPS,
    STATE_SHARE,
    STEP_S,
    STREAM_S,
    STREAM_SHARE,
    WRITE_S,
)
from spmd_core.time.serving.held import WeightMatmul, cached, engine_of, layers_of, products

PARTS: tuple[str, ...] = ("weights", "cache", "matmul", "collectives", "dispatch")


@dataclass(frozen=True, slots=True)
class StepLoad:
    """The tokens of one step of a replica.

    Attributes:
      decoding: requests that get one token each.
      context: tokens that each of them has in the cache, on average.
      prompt: tokens of prompts.
      before: tokens that precede each of them, on average.
      prompts: prompts that these are of.
    """

    decoding: int = 0
    context: float = 0.0
    prompt: int = 0
    before: float = 0.0
    prompts: int = 1


@dataclass(frozen=True, slots=True)
class StepTime:
    """Seconds of a step by part, as `PARTS`, and the least that it could take; the bytes of a device
    that its parts read.
    """

    parts: dict[str, float]
    least: float
    read: Mapping[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        """All of it, one after the other."""
        return sum(self.parts.values())

    @property
    def binds(self) -> str:
        """The part that takes longest."""
        return max(self.parts, key=lambda name: self.parts[name])

    def scaled(self, times: float) -> "StepTime":
        """Returns the same with all seconds times that, together no less than the least."""
        times = max(times, self.least / self.seconds)
        parts = {name: times * each for name, each in self.parts.items()}
        return StepTime(parts, self.least, self.read)

    @property
    def estimate(self) -> Estimate:
        """The seconds with their interval."""
        return interval(self.parts, self.seconds, self.least)


def interval(parts: dict[str, float], seconds: float, least: float) -> Estimate:
    """Returns an interval: what each part may be off by, as independent deviations."""
    total = sum(parts.values()) or 1.0
    shares = {name: seconds * each / total for name, each in parts.items()}
    rest = (UNMODELLED * seconds, WITHOUT_COMPILING * seconds)
    both = (KERNEL_OFF * shares["cache"], (MATMUL_OFF - 1) * shares["matmul"])
    more = (MEMORY_HIGH - 1) * shares["weights"], *(0.3 * shares[n] for n in PARTS[3:])
    down = (1 - STREAM_SHARE) * shares["weights"], *(0.3 * shares[n] for n in PARTS[3:])
    low, high = (math.hypot(*rest, *both, *each) for each in (down, more))
    return Estimate(low=max(least, seconds - low), estimate=seconds, high=seconds + high)


@lru_cache(maxsize=2**14)
def step_time(plan: ServedPlan, load: StepLoad) -> StepTime:
    """Returns the seconds of a step on the device that has most to do."""
    data = plan.along("data")
    mine = -(-load.decoding // data)
    prompt = load.prompt / min(data, max(1, load.prompts))
    is_padded = (
        not plan.topology.chip.is_gpu
    )  # each shard to the fullest: tpu-inference, tpu_runner.py
    tokens = {
        "attention": mine + prompt,
        "mlp": float(data * (mine + prompt) if is_padded else load.decoding + load.prompt),
        "logits": float(load.decoding + min(load.prompts, load.prompt)),
    }
    parts, touched = dict.fromkeys(PARTS, 0.0), 0.0
    for each in products(plan):
        weights, more, nbytes = _product_s(plan, each, tokens)
        parts["weights"] += weights
        parts["matmul"] += more
        touched += nbytes
    parts["cache"], read = _decode_s(plan, mine, load.context)
    parts["matmul"] += _prompt_s(plan, prompt, load.before)
    late, write = (COLLECTIVE_S, WRITE_S) if is_padded else (0.0, 0.0)
    parts["cache"] += write * prompt * sum(each.count for each in cached(plan) if each.row)
    of_all, of_experts = _collectives(plan, tokens)
    parts["collectives"] = passing_s(plan, of_all, late, "engine")
    parts["collectives"] += min(passing_s(plan, each, late, "engine") for each in of_experts)
    parts["dispatch"] = _dispatch_s(plan, tokens)
    least = (touched + read) / plan.topology.chip.device_hbm_bandwidth
    return StepTime(parts, least, {"weights": touched, "cache": read})


def cache_s(plan: ServedPlan, decoding: int, context: float) -> float:
    """Returns the seconds of a decode step's attention, the part that grows with the context."""
    return _decode_s(plan, -(-decoding // plan.along("data")), context)[0]


def _product_s(
    plan: ServedPlan, each: WeightMatmul, tokens: dict[str, float]
) -> tuple[float, float, float]:
    """(seconds of reading weights, of the matrix unit beyond these, bytes that are read)."""
    chip, size, times, nbytes = plan.topology.chip, plan.size, each.times, each.nbytes
    if each.rows != "expert":
        rows = tokens[each.rows]
    else:  # as many experts as tokens that choose at random are expected to visit
        share = size.experts_per_token / size.experts
        visited = 1 - (1 - share) ** tokens["mlp"]
        times, nbytes = times * visited, nbytes * visited
        rows = tokens["mlp"] * share / max(visited, 1e-9)
        padded = (rows + BLOCK_ROWS / 2) * times
        flops = round(2 * padded * each.inner * each.columns)
    if not rows:
        return 0.0, 0.0, 0.0
    if each.rows == "expert":  # a layer's experts are one kernel
        times = sum(count for layer, count in layers_of(size) if layer.experts > 1)
        compute = matmul_s(Matmul(flops, each.element), chip)  # pyrefly: ignore[unbound-name]
    else:
        sides = [max(1, round(side)) for side in (rows, each.inner, each.columns)]
        one = Matmul(2 * math.prod(sides), each.element, 1, sides[0], sides[2])
        compute = times * matmul_s(one, chip)
    share, begin = (chip.hbm_share, KERNEL_S) if isinstance(chip, Gpu) else (STREAM_SHARE, STREAM_S)
    reading = nbytes / (chip.device_hbm_bandwidth * share) + times * begin
    return reading, max(0.0, compute - reading), nbytes


def _decode_s(plan: ServedPlan, mine: int, context: float) -> tuple[float, float]:
    """(seconds of one token's attention of each request of a shard, bytes of cache that it must read)."""
    if not mine:
        return 0.0, 0.0
    chip, seconds, least = plan.topology.chip, 0.0, 0.0
    engine, reached = engine_of(plan), FLASH_FORWARD if chip.is_gpu else PREFILL_SHARE
    for each in cached(plan):
        layer, rows = each.layer, mine * each.count * each.tokens(context)
        reading = rows * each.padded / chip.device_hbm_bandwidth / engine.cache_share
        sides = layer.head_dim + layer.value_size
        sides = 2 * layer.kv_rank + layer.rope_dim if layer.kv_rank else sides
        heads = layer.heads / plan.along("tensor")
        compute = 2 * rows * heads * sides / chip.device_flops / reached
        begins = each.count * KERNEL_S if chip.is_gpu else mine * each.count * SEQUENCE_S
        begins += 0.0 if chip.is_gpu else rows / engine.page * PAGE_S
        states = mine * each.count * each.state
        seconds += max(reading, compute) + (begins if each.row else 0.0)
        seconds += hbm_s(chip, 2 * states)  # read and written
        least += rows * each.row + states
    return seconds, least


def _prompt_s(plan: ServedPlan, tokens: float, before: float) -> float:
    if not tokens:
        return 0.0
    chip, tensor, seconds = plan.topology.chip, plan.along("tensor"), 0.0
    for each in cached(plan):
        layer, seen = each.layer, min(before + 1, each.layer.windows[0] or before + 1)
        if each.state:
            flops = STATE_FLOPS * tokens * layer.state_values * layer.state_dim / tensor
            seconds += each.count * flops / (chip.device_flops * STATE_SHARE)
        elif each.row:
            seconds += each.count * _attention_s(plan, layer, tokens, seen)
    return seconds


def _attention_s(plan: ServedPlan, layer: ModelSize, tokens: float, seen: float) -> float:
    chip, heads = plan.topology.chip, layer.heads / plan.along("tensor")
    if chip.is_gpu:
        flops = 2 * tokens * seen * heads * (layer.head_dim + layer.value_size)
        return flops / (chip.device_flops * FLASH_FORWARD)
    sides = round(tokens), max(1, round(seen))
    blocks = (-(-sides[0] // KERNEL_BLOCK), -(-sides[1] // KERNEL_BLOCK))
    kept = (*blocks, math.prod(blocks))
    query = (1, heads, sides[0], layer.head_dim)
    return attention_cost("fwd", query, sides[1], kept, chip, layer.value_size).seconds


Passed = tuple[str, tuple[str, ...], float, int]  # kind, mesh axes, bytes, times


def _collectives(
    plan: ServedPlan, tokens: dict[str, float]
) -> tuple[list[Passed], list[list[Passed]]]:
    """(sums behind attention and behind the mlp, and logits; ways to and from layers of experts).

    Beside `data` tokens are gathered before the mlp, and scattered behind it. On GPUs each may go to
    the devices of its experts instead, in the dtype of weights in 8 bits, and come back in bfloat16.
    """
    size, data, (mixers, mlps) = plan.size, plan.along("data"), layer_counts(plan)
    own, every = (2.0 * size.embed * tokens[name] for name in ("attention", "mlp"))
    first = [
        ("all-reduce", ("tensor",), own, mixers),
        ("all-gather", ("data", "tensor"), tokens["logits"] * size.vocab * 2.0, 1),
    ]
    if data == 1:
        return [*first, ("all-reduce", ("tensor",), every, mlps)], [[]]
    routed = sum(count for layer, count in layers_of(size) if layer.experts > 1)
    gathered = [
        ("all-gather", ("data",), every, 1),
        ("reduce-scatter", ("data", "tensor"), every, 1),
        ("all-gather", ("tensor",), own, 1),
    ]
    ways = [[(*each[:3], routed) for each in gathered]]
    if plan.topology.chip.is_gpu and plan.along("expert") == plan.devices:
        copies = own / plan.along("tensor") * min(size.experts_per_token, plan.devices)
        there = copies / (2 if plan.weights_dtype in ("fp8", "int8") else 1)
        sent = [("all-to-all", ("data", "tensor"), each, routed) for each in (there, copies)]
        ways.append([*sent, ("all-gather", ("tensor",), own, routed)])
    return first + [(*each[:3], mlps - routed) for each in gathered], ways


def layer_counts(plan: ServedPlan) -> tuple[int, int]:
    """Layers with a mixer, and layers with an mlp: a sum behind each."""
    layers = layers_of(plan.size)
    mixers = sum(count for layer, count in layers if layer.mixers[0] != "none")
    return mixers, sum(count for layer, count in layers if layer.mlps[0] != "none")


def passing_s(
    plan: ServedPlan, passed: Iterable[Passed], late: float = 0.0, caller: Caller = "xla"
) -> float:
    """Returns the seconds of collectives of a replica; `late`: of each, one way."""
    topology = plan.replica_topology
    own = [(name, plan.along(name)) for name in ("data", "tensor")]
    sizes = (("replica", topology.devices // plan.devices), *own)
    mesh = tuple((name, length) for name, length in sizes if length > 1)
    seconds = 0.0
    for kind, axes, nbytes, times in passed:
        if nbytes and any(plan.along(axis) > 1 for axis in axes):
            where = route_of(topology, mesh, "topology", axes)
            one = collective_s(topology, kind, where, nbytes, caller=caller)
            seconds += times * (one + late * (1 + (kind == "all-reduce")))
    return seconds


def _dispatch_s(plan: ServedPlan, tokens: dict[str, float]) -> float:
    """Small operations, passes over the residual stream and the logits, and the host."""
    chip, size = plan.topology.chip, plan.size
    stream = 2.0 * tokens["attention"] * size.embed
    if chip.is_gpu:
        least, passes, moved = GPU_OPERATIONS * LAUNCH_S, GPU_STREAM_PASSES, stream
    else:
        least, passes = OPERATIONS * OPERATION_S, GATHERED_STREAM_PASSES
        moved = stream * min(1.0, stream / (stream + HALF_BYTES) * (1 + HALF_BYTES / LARGE_BYTES))
    layer = max(least, hbm_s(chip, FORWARD * passes * moved))
    routed = sum(count for each, count in layers_of(size) if each.experts > 1)
    logits = hbm_s(chip, LOGIT_PASSES * 4.0 * tokens["logits"] * size.vocab)
    return size.layers * layer + routed * EXPERT_OPERATIONS * least + logits + STEP_S

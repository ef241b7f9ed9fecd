"""How long XLA's own program of a step takes, beside a contiguous cache: by the rules that price the
compiled one, operation by operation, before it is compiled.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from spmd_core.machine import Chip, Gpu
from spmd_core.plan import SERVED_DTYPES, ModelSize, ServedPlan
from spmd_core.time.cost.constants import MATMUL_SHARE, OPERATION_S, hbm_s
from spmd_core.time.cost.flops import Matmul, matmul_s, narrow_cycles
from spmd_core.time.cost.kernels import GROUP_SIDE, grouped_cost
from spmd_core.time.gpu.constants import LAUNCH_S
from spmd_core.time.gpu.matmuls import sustained
from spmd_core.time.serving.held import WEIGHT_BYTES, Cached, cached, layers_of, products
from spmd_core.time.serving.step import PARTS, Passed, StepTime, layer_counts, passing_s
from spmd_core.workloads import ServedStep

LANES = 128
# bytes of a core's vector memory, where arrays stay between operations: jax's `get_tpu_info`, of v6e
# three quarters, where 64 MiB of scores and 112 MiB of experts do not stay. The two cores of v5p have
# one each, and of both only little stays; a GPU has none
VMEM = {"v5e": 2**27, "v6e": 3 * 2**25, "tpu7x": 2**26}
SHARED = 2**23
# passes over rows of experts, in and out of tiles: read off compiled layers
ROWS, UNTILED_ROWS = 8, 23
RETILED = ("tpu7x",)  # whose compiler lays out bfloat16 weights anew, once a step
# side of the tiles by which XLA's cost of a split counts waves (xla/backends/gpu/transforms,
# splitk_rewriter.cc). Compiled decode steps of up to 4,096 rows follow it, but for int8 on A100; the
# experts of compiled prefills, which it would split, are not split
SPLIT_TILE = 212
# bytes of a sum of which none, and all, runs beside the copies of experts, as any sum does beside those
# of an mlp: read off compiled steps; of one of 56 KiB two thirds do. None in int8 on A100
ALONE_BYTES, BESIDE_BYTES = 45 * 2**10, 2**16


class _Layer(NamedTuple):
    """A compiler's program of a layer, read off compiled ones: small operations, more of them for scales
    of weights in 8 bits, for norms of queries and keys, for routing; passes over scores in float32,
    those `apart` beside no matmul; times that weights and cache pass as they are sliced out of all
    layers'.
    """

    small: int
    of_scales: int = 14
    of_norms: int = 0
    of_routing: int = 0
    scores: float = 3
    apart: float = 0
    sliced: int = 0


ONE_CORE, TWO_CORES, ON_GPUS = _Layer(6), _Layer(19), _Layer(24, 4, 5, 18, 5, 3.5, 2)


def _layer_on(chip: Chip) -> _Layer:
    return ON_GPUS if chip.is_gpu else (ONE_CORE, TWO_CORES)[chip.cores > 1]


def contiguous_time(step: ServedStep) -> StepTime:
    """Returns the seconds of the compiled step, by part as of an engine's."""
    plan, chip = step.plan, sustained(step.plan.topology).chip
    mine = step.requests / plan.replicas / plan.along("data")
    rows = {"attention": mine * step.chunk, "logits": mine * plan.along("data")}
    rows["mlp"] = rows["logits"] * step.chunk
    parts, held = dict.fromkeys(PARTS, 0.0), dict.fromkeys(rows, 0.0)
    begin, is_int8 = LAUNCH_S if chip.is_gpu else OPERATION_S, plan.weights_dtype == "int8"
    is_plain = is_int8 and isinstance(chip, Gpu) and chip.capability < (9, 0)
    for each in products(plan):
        if each.rows == "expert":
            continue
        reading = each.times * max(begin, hbm_s(chip, each.nbytes / each.times))
        sides = [max(1, round(side)) for side in (rows[each.rows], each.inner, each.columns)]
        one = Matmul(2 * math.prod(sides), each.element, 1, sides[0], sides[2])
        in_one = step.chunk > 1 or (is_plain and each.element == "s8")
        compute = each.times * _matmul_s(one, chip, not in_one)
        parts["weights"] += reading
        parts["matmul"] += max(0.0, compute - reading)
        held[each.rows] += each.nbytes
    for reading, more, nbytes in _experts(step, chip, rows["mlp"]):
        parts["weights"] += reading
        parts["matmul"] += more
        held["mlp"] += nbytes
    # of one row a fusion that reads in place, but for the mlp in bfloat16
    copied = held["attention"] * (rows["attention"] > 1), held["mlp"] * (rows["mlp"] > is_int8)
    first, last = (hbm_s(chip, _layer_on(chip).sliced * each) for each in copied)
    parts["weights"] += first + last
    parts["cache"], read = _attention(step, chip, mine)
    behind_mixers, *others = _collectives(step, rows)
    beside = (behind_mixers[2] - ALONE_BYTES) / (BESIDE_BYTES - ALONE_BYTES)
    share = 0.0 if is_plain else min(1.0, max(0.0, plan.size.experts == 1, beside))
    passed = passing_s(plan, [behind_mixers])
    parts["collectives"] = passed - share * min(last, passed) + passing_s(plan, others)
    parts["dispatch"] = _dispatch(plan, begin)
    return StepTime(parts, (sum(held.values()) + read) / chip.device_hbm_bandwidth)


def _matmul_s(one: Matmul, chip: Chip, may_split: bool) -> float:
    """Seconds of a matmul; on GPUs of as many parts of what is contracted as fill it, where the tiles
    of two are one wave.
    """
    tiles = -(-one.rows // SPLIT_TILE) * -(-one.columns // SPLIT_TILE)
    splits = may_split and isinstance(chip, Gpu) and 2 * tiles <= chip.sms
    parts = (4, 16, 64) if splits else (1,)
    return min(matmul_s(replace(one, rows=each * one.rows), chip) for each in parts)


def _experts(step: ServedStep, chip: Chip, tokens: float) -> Iterator[tuple[float, float, float]]:
    """(seconds of reading weights, of the rest, bytes of weights) of each kind of layer's experts."""
    plan = step.plan
    for layer, count in layers_of(plan.size):
        if layer.experts == 1:
            continue
        local, slots = layer.experts / plan.along("expert"), tokens * layer.experts_per_token
        inside, ways = layer.mlp * layer.experts / local / plan.devices, 1 + layer.gated
        visited = local * (1 - (1 - layer.experts_per_token / layer.experts) ** tokens)
        visited = round(local if chip.is_gpu else max(1, visited))
        reading = more = nbytes = 0.0
        for *sides, shared in [(layer.embed, inside, ways)] * ways + [(inside, layer.embed, 1)]:
            args = step, chip, (local, *sides), slots
            seconds = _masked_s(*args, shared) if chip.is_gpu else _grouped_s(*args, layer, visited)
            sliced, stream, compute = seconds
            reading += sliced + stream
            more += max(0.0, compute - stream)
            nbytes += WEIGHT_BYTES.get(plan.weights_dtype, 1.0) * visited * math.prod(sides)
        stream = 2 * slots * layer.embed
        if stream > _vmem(chip) / 3:
            is_tiled = chip.is_gpu or layer.embed % LANES == 0
            more += hbm_s(chip, (ROWS if is_tiled else UNTILED_ROWS) * stream)
        yield count * reading, count * more, count * nbytes


def _masked_s(
    step: ServedStep, chip: Chip, sides: tuple[float, ...], slots: float, shared: int
) -> tuple[float, float, float]:
    """(seconds of slicing, which is counted apart, of reading, of multiplying) of a dense product over all
    experts of a GPU, for which each row is laid out once for each of them, as zeros but for its own, and
    `shared` by so many products.
    """
    dtype, rows = step.plan.weights_dtype, max(1, round(slots))
    laid_out = rows * sides[0] * sides[1] * (1 + 1 / shared)
    stream = hbm_s(chip, WEIGHT_BYTES.get(dtype, 1.0) * (math.prod(sides) + laid_out))
    flops = round(2 * rows * math.prod(sides))
    one = Matmul(flops, SERVED_DTYPES[dtype], 1, rows, round(sides[2]))
    return 0.0, stream, _matmul_s(one, chip, step.chunk == 1)


def _grouped_s(
    step: ServedStep,
    chip: Chip,
    sides: tuple[float, ...],
    slots: float,
    layer: ModelSize,
    visited: int,
) -> tuple[float, float, float]:
    """The same on TPUs: a kernel reads bfloat16 weights of the experts visited in place; others are first
    sliced out of all layers', and widened if the chip has no unit for their dtype.
    """
    dtype, (local, inner, columns) = step.plan.weights_dtype, sides
    element, width, sliced = SERVED_DTYPES[dtype], 2 if dtype == "bf16" else 1, 0.0
    wide = 4 if dtype == "fp8" and narrow_cycles(chip, element) > 0.5 else width
    rows, matrices = round(slots / layer.experts * local), local * _up(inner) * _up(columns)
    in_place = dtype == "bf16" and not (inner % LANES or columns % LANES)
    if not in_place:
        stays = wide * matrices <= _vmem(chip)
        sliced = hbm_s(chip, (width + wide * (not stays)) * matrices)
    high = min(step.group_rows if in_place else 128, max(8, round(slots)))
    block = high, GROUP_SIDE if in_place else round(max(inner, columns))
    stream = hbm_s(chip, wide * visited / local * matrices + 2 * rows * (inner + columns))
    each = max(1, rows), round(inner), round(columns), visited, block, chip
    return sliced, stream, grouped_cost(*each, "f32" if wide == 4 else element).seconds


def _up(side: float) -> float:
    return -(-side // LANES) * LANES


def _vmem(chip: Chip) -> float:
    return VMEM.get(chip.generation, SHARED if chip.cores > 1 and not chip.is_gpu else 0)


def _attention(step: ServedStep, chip: Chip, mine: float) -> tuple[float, float]:
    """(seconds of attention over all slots, the fewest bytes of cache to read)."""
    seconds, least = 0.0, 0.0
    for each in cached(step.plan):
        seconds += each.count * _layer_attention(step, chip, each, mine)
        least += mine * each.count * (each.row * each.tokens(step.slots) + each.state)
        seconds += hbm_s(chip, 2 * mine * each.count * each.state)
    return seconds, least


def _layer_attention(step: ServedStep, chip: Chip, each: Cached, mine: float) -> float:
    if not each.row:
        return 0.0
    layer, made = each.layer, _layer_on(chip)
    heads, tokens = layer.heads / step.plan.along("tensor"), each.tokens(step.slots)
    if tokens < step.slots and step.chunk > 1:
        tokens += step.chunk  # the new ones beside the window
    scores, nbytes = 4.0 * mine * heads * step.chunk * tokens, mine * each.padded * tokens
    passes = (made.scores - made.apart + layer.sinks) * (scores > _vmem(chip) / 2)
    sides = layer.head_dim + layer.value_size
    sides = 2 * layer.kv_rank + layer.rope_dim if layer.kv_rank else sides
    share = chip.matmul_share if isinstance(chip, Gpu) else MATMUL_SHARE
    multiplying = scores / 2 * sides / (chip.device_flops * share)
    apart = hbm_s(chip, made.sliced * nbytes + made.apart * scores)
    return max(hbm_s(chip, nbytes + passes * scores), multiplying) + apart


def _collectives(step: ServedStep, rows: dict[str, float]) -> Iterator[Passed]:
    """Sums of a step: they are of what a matmul accumulates, in 32 bits
    where its weights have 8.
    """
    plan, (mixers, mlps) = step.plan, layer_counts(step.plan)
    width = 2 if plan.weights_dtype == "bf16" else 4
    own, every = (rows[name] * plan.size.embed for name in ("attention", "mlp"))
    yield "all-reduce", ("tensor",), width * own, mixers
    yield "all-reduce", ("tensor",), width * own, mlps
    yield "all-gather", ("data",), 2 * every, mlps
    # no sum of integers is scattered
    kind = "all-reduce" if plan.weights_dtype == "int8" else "reduce-scatter"
    yield kind, ("data",), width * every, mlps
    yield "all-reduce", ("data", "tensor"), 2 * every, 1  # rows of the embedding


def _dispatch(plan: ServedPlan, begin: float) -> float:
    chip, narrow = plan.topology.chip, plan.weights_dtype != "bf16"
    again = 0.0
    if chip.generation in RETILED and not narrow:
        again = sum(each.nbytes for each in products(plan) if each.rows in ("attention", "mlp"))
    made, size = _layer_on(chip), plan.size
    small = made.small + made.of_scales * narrow + made.of_norms * size.qk_norm
    routed = sum(count for layer, count in layers_of(size) if layer.experts > 1)
    return (size.layers * small + routed * made.of_routing) * begin + hbm_s(chip, 2 * again)

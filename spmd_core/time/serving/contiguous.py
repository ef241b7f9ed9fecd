"""How long XLA's own program of a step takes, beside a contiguous cache: by the rules that price the
compiled one, operation by operation, before it is compiled.
"""

import math
from collections.abc import Iterator

from spmd_core.experiment import SERVED_DTYPES, ServedPlan, ServedStep
from spmd_core.machine import Chip
from spmd_core.time.cost.constants import MATMUL_SHARE, OPERATION_S, hbm_s
from spmd_core.time.cost.flops import Matmul, matmul_s, narrow_cycles
from spmd_core.time.cost.kernels import GROUP_SIDE, grouped_cost
from spmd_core.time.gpu.constants import LAUNCH_S
from spmd_core.time.serving.held import Cached, cached, layers_of, products
from spmd_core.time.serving.step import PARTS, Passed, StepTime, layer_counts, passing_s

LANES = 128
# bytes of a core's vector memory, where arrays stay between operations: jax's `get_tpu_info`. The two
# cores of v5p have one each, and of both only little stays; a GPU has none
VMEM = {"v5e": 2**27, "v6e": 2**27, "tpu7x": 2**26}
SHARED = 2**23
# read off compiled layers: small operations of one core, and of two; more for scales of weights in 8
# bits; passes over scores in float32, one more with sinks; over rows of experts, in and out of tiles
SMALL, OF_TWO, OF_SCALES, SCORES, ROWS, UNTILED_ROWS = 6, 19, 14, 3, 8, 23
RETILED = ("tpu7x",)  # whose compiler lays out bfloat16 weights anew, once a step


def contiguous_time(step: ServedStep) -> StepTime:
    """Returns the seconds of the compiled step, by part as of an engine's."""
    plan, chip = step.plan, step.plan.topology.chip
    mine = step.requests / plan.replicas / plan.along("data")
    rows = {"attention": mine * step.chunk, "logits": mine * plan.along("data")}
    rows["mlp"] = rows["logits"] * step.chunk
    parts, touched = dict.fromkeys(PARTS, 0.0), 0.0
    begin = LAUNCH_S if chip.is_gpu else OPERATION_S
    for each in products(plan):
        if each.rows == "expert":
            continue
        reading = each.times * max(begin, hbm_s(chip, each.nbytes / each.times))
        sides = [max(1, round(side)) for side in (rows[each.rows], each.inner, each.columns)]
        one = Matmul(2 * math.prod(sides), each.element, 1, sides[0], sides[2])
        compute = each.times * matmul_s(one, chip)
        parts["weights"] += reading
        parts["matmul"] += max(0.0, compute - reading)
        touched += each.nbytes
    for reading, more, nbytes in _experts(step, rows["mlp"]):
        parts["weights"] += reading
        parts["matmul"] += more
        touched += nbytes
    parts["cache"], read = _attention(step, mine)
    parts["collectives"] = passing_s(plan, _collectives(step, rows))
    parts["dispatch"] = _dispatch(plan, begin)
    return StepTime(parts, (touched + read) / chip.device_hbm_bandwidth)


def _experts(step: ServedStep, tokens: float) -> Iterator[tuple[float, float, float]]:
    """(seconds of reading weights, of the rest, bytes of weights) of each kind of layer's experts.

    A kernel reads bfloat16 weights of the experts visited in place; others are first sliced out of
    all layers', and widened if the chip has no unit for their dtype.
    """
    plan, chip, dtype = step.plan, step.plan.topology.chip, step.plan.weights_dtype
    element, width = SERVED_DTYPES[dtype], 2 if dtype == "bf16" else 1
    wide = 4 if dtype == "fp8" and narrow_cycles(chip, element) > 0.5 else width
    for layer, count in layers_of(plan.size):
        if layer.experts == 1:
            continue
        local, share = layer.experts / plan.along("expert"), layer.experts_per_token / layer.experts
        inside = layer.mlp * plan.along("expert") / plan.devices
        visited = max(1, round(local * (1 - (1 - share) ** tokens)))
        rows, slots = round(tokens * share * local), round(tokens * layer.experts_per_token)
        tiled = layer.embed % LANES == 0 and inside % LANES == 0
        in_place = not chip.is_gpu and tiled and dtype == "bf16"
        reading = more = nbytes = 0.0
        for inner, columns in [(layer.embed, inside)] * (1 + layer.gated) + [(inside, layer.embed)]:
            matrices = local * _up(inner) * _up(columns)
            if not in_place:
                stays = wide * matrices <= _vmem(chip)
                reading += hbm_s(chip, (width + wide * (not stays)) * matrices)
            streaming = wide * visited / local * matrices + 2 * rows * (inner + columns)
            high = min(step.group_rows if in_place else 128, max(8, slots))
            block = high, GROUP_SIDE if in_place else round(max(inner, columns))
            sizes = max(1, rows), round(inner), round(columns), visited, block, chip
            compute = grouped_cost(*sizes, "f32" if wide == 4 else element).seconds
            reading += hbm_s(chip, streaming)
            more += max(0.0, compute - hbm_s(chip, streaming))
            nbytes += width * visited * inner * columns
        stream = 2 * tokens * layer.experts_per_token * layer.embed
        if stream > _vmem(chip) / 3:
            more += hbm_s(chip, (UNTILED_ROWS if layer.embed % LANES else ROWS) * stream)
        yield count * reading, count * more, count * nbytes


def _up(side: float) -> float:
    return -(-side // LANES) * LANES


def _vmem(chip: Chip) -> float:
    return VMEM.get(chip.generation, SHARED if chip.cores > 1 and not chip.is_gpu else 0)


def _attention(step: ServedStep, mine: float) -> tuple[float, float]:
    """(seconds of attention over all slots, the fewest bytes of cache to read)."""
    chip, plan, seconds, least = step.plan.topology.chip, step.plan, 0.0, 0.0
    for each in cached(plan):
        seconds += each.count * _layer_attention(step, each, mine)
        least += mine * each.count * (each.row * each.tokens(step.slots) + each.state)
        seconds += hbm_s(chip, 2 * mine * each.count * each.state)
    return seconds, least


def _layer_attention(step: ServedStep, each: Cached, mine: float) -> float:
    if not each.row:
        return 0.0
    chip, layer = step.plan.topology.chip, each.layer
    heads, tokens = layer.heads / step.plan.along("tensor"), each.tokens(step.slots)
    if tokens < step.slots and step.chunk > 1:
        tokens += step.chunk  # the new ones beside the window
    scores = 4.0 * mine * heads * step.chunk * tokens
    passes = (SCORES + layer.sinks) * (scores > _vmem(chip) / 2)
    nbytes = mine * each.padded * tokens + passes * scores
    sides = layer.head_dim + layer.value_size
    sides = 2 * layer.kv_rank + layer.rope_dim if layer.kv_rank else sides
    flops = 2 * scores / 4 * sides
    return max(hbm_s(chip, nbytes), flops / (chip.device_flops * MATMUL_SHARE))


def _collectives(step: ServedStep, rows: dict[str, float]) -> Iterator[Passed]:
    """Sums of a step: they are of what a matmul accumulates, in 32 bits
    where its weights have 8.
    """
    plan, (mixers, mlps) = step.plan, layer_counts(step.plan)
    width = 2 if plan.weights_dtype == "bf16" else 4
    own, every = (rows[name] * plan.size.embed for name in ("attention", "mlp"))
    yield "all-reduce", ("tensor",), width * own, mixers + mlps
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
    small = (OF_TWO if chip.cores > 1 else SMALL) + OF_SCALES * narrow
    return plan.size.layers * small * begin + hbm_s(chip, 2 * again)

"""What a device holds of a served model: the matmuls of its weights, and its cache."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from spmd_core.base import refuse
from spmd_core.machine import GPU_SHARE, Chip, Gpu
from spmd_core.plan import MXFP4, SERVED_DTYPES, ModelSize, ServedPlan
from spmd_core.time.cost.constants import hbm_share
from spmd_core.time.cost.flops import narrow_cycles
from spmd_core.time.serving.assumed import (
    CACHE_SHARE,
    CONTEXT_BYTES,
    GPU_PAGE,
    LANES,
    LOGIT_BYTES,
    PAGE,
    POOL_SHARE,
    PROFILED,
    STATE_BYTES,
    STREAM_BYTES,
)

WEIGHT_BYTES = {"bf16": 2.0, MXFP4: 4.25 / 8}  # of an element; 1 in 8 bits


@dataclass(frozen=True, slots=True)
class WeightMatmul:
    """Matmuls of one device by weights [inner, columns], `times` in a step.

    `rows` are the tokens of a shard of "attention", all of the replica ("mlp"), those of an
    "expert", or those whose logits are needed.
    """

    rows: str
    inner: float
    columns: float
    times: float
    dtype: str

    @property
    def nbytes(self) -> float:
        """Bytes of the weights, all times together."""
        return self.inner * self.columns * self.times * WEIGHT_BYTES.get(self.dtype, 1.0)

    @property
    def element(self) -> str:
        """The element type that it is multiplied in, as HLO writes it."""
        return SERVED_DTYPES.get(self.dtype, "bf16")


def check_dtypes(plan: ServedPlan) -> None:
    """Raises RequestError where a chip has no unit for a dtype of the plan."""
    chip = plan.topology.chip
    for what, dtype in (("weights", plan.weights_dtype), ("cache", plan.kv_dtype)):
        if not has_unit(chip, dtype):
            have = " or ".join(each for each in SERVED_DTYPES if has_unit(chip, each))
            raise refuse(f"{what} in {dtype}", f"is not for {chip.title}", f"use {have}")


def has_unit(chip: Chip, dtype: str) -> bool:
    """Returns True if a chip multiplies in a dtype at least as fast as in bfloat16."""
    if isinstance(chip, Gpu):
        return dtype != "fp8" or chip.fp8_flops is not None
    return dtype == MXFP4 or narrow_cycles(chip, SERVED_DTYPES[dtype]) <= 1


@lru_cache(maxsize=256)
def layers_of(size: ModelSize) -> tuple[tuple[ModelSize, int], ...]:
    """Returns a model of one layer of each kind, and how many of them there are."""
    return tuple(Counter(map(size.layer, size.kinds)).items())


@lru_cache(maxsize=1024)
def products(plan: ServedPlan) -> tuple[WeightMatmul, ...]:
    """Returns the matmuls of a step on one device: projections, mlp or experts, table of outputs."""
    size, dtype = plan.size, _beside_experts(plan)
    listed = [
        WeightMatmul("attention", *each, count, dtype)
        for layer, count in layers_of(size)
        for each in _mixing(plan, layer)
    ]
    for layer, count in layers_of(size):
        if layer.mlps[0] != "none":
            listed += _mlp(plan, layer, count)
    listed.append(WeightMatmul("logits", size.embed, size.vocab / plan.devices, 1, "bf16"))
    return tuple(each for each in listed if each.inner and each.columns)


def _beside_experts(plan: ServedPlan) -> str:
    return "bf16" if plan.weights_dtype == MXFP4 else plan.weights_dtype


def _mlp(plan: ServedPlan, layer: ModelSize, count: int) -> Iterator[WeightMatmul]:
    matrices, embed, dtype = 2 if layer.gated else 1, layer.embed, _beside_experts(plan)
    width = layer.mlp
    if layer.experts > 1:
        expert = plan.along("expert")
        times = count * math.ceil(layer.experts / expert)
        inside, of_experts = layer.mlp * expert / plan.devices, plan.weights_dtype
        yield WeightMatmul("expert", embed, matrices * inside, times, of_experts)
        yield WeightMatmul("expert", inside, embed, times, of_experts)
        yield WeightMatmul("attention", embed, layer.experts, count, "bf16")
        width = layer.shared_mlp
    yield WeightMatmul("mlp", embed, matrices * width / plan.devices, count, dtype)
    yield WeightMatmul("mlp", width / plan.devices, embed, count, dtype)


def _mixing(plan: ServedPlan, layer: ModelSize) -> Iterator[tuple[float, float]]:
    """(inner, columns) of one layer's projections; latent ones absorbed, head by head."""
    tensor, mixer = plan.along("tensor"), layer.mixers[0]
    if mixer == "none":
        return
    if mixer != "attention":
        values, steps = layer.state_values, (1 + (mixer == "delta")) * layer.state_heads
        yield layer.embed, (2 * layer.state_keys + 2 * values + steps) / tensor
        yield values / tensor, layer.embed
        return
    heads = layer.heads / tensor
    gate, out = layer.out_gate * heads * layer.value_size, (heads * layer.value_size, layer.embed)
    if not layer.kv_rank:
        sides = layer.head_dim + (0 if layer.full_shared_kv else layer.value_size)
        yield layer.embed, heads * layer.head_dim + gate + key_heads(plan, layer) * sides
        yield out
        return
    yield layer.embed, layer.q_rank + layer.kv_rank + layer.rope_dim + gate
    yield layer.q_rank or layer.embed, heads * layer.head_dim
    yield layer.nope_dim, heads * layer.kv_rank
    yield layer.kv_rank, heads * layer.value_size
    yield out


def key_heads(plan: ServedPlan, layer: ModelSize) -> int:
    """Returns the key heads of a device: repeated where `tensor` is more than there are."""
    return max(1, layer.kv_heads // plan.along("tensor"))


def weight_bytes(plan: ServedPlan) -> float:
    """Returns the bytes of weights on one device, its rows of the embedding among them."""
    size = plan.size
    tables = 0.0 if size.tied else 2 * size.vocab * size.embed / plan.devices
    return sum(each.nbytes for each in products(plan)) + tables


@dataclass(frozen=True, slots=True)
class Cached:
    """What the layers of one kind keep of a sequence on a device.

    Attributes:
      layer: of one layer.
      count: layers.
      row: bytes of a token; 0 of layers that keep a state alone. `padded` to the lanes of a TPU.
      state: bytes, however long the sequence is.
    """

    layer: ModelSize
    count: int
    row: float
    padded: float
    state: float

    def tokens(self, length: float) -> float:
        """Returns the tokens that a layer keeps of so many: at most its window."""
        return min(length, self.layer.windows[0] or length) if self.row else 0.0


@lru_cache(maxsize=1024)
def cached(plan: ServedPlan) -> tuple[Cached, ...]:
    """Returns what the layers of each kind keep."""
    width, tensor = 2 if plan.kv_dtype == "bf16" else 1, plan.along("tensor")
    lanes = 1 if plan.topology.chip.is_gpu else LANES
    kept = []
    for layer, count in layers_of(plan.size):
        row = padded = state = 0.0
        if layer.mixers[0] == "attention":
            one = layer.kv_rank + layer.rope_dim or layer.head_dim + layer.value_size
            times = width * (1 if layer.kv_rank else key_heads(plan, layer))
            row, padded = one * times, -(-one // lanes) * lanes * times
        elif layer.mixers[0] != "none":
            state = STATE_BYTES * layer.state_values * layer.state_dim / tensor
        kept.append(Cached(layer, count, row, padded, state))
    return tuple(kept)


def cache_bytes(plan: ServedPlan, tokens: float) -> float:
    """Returns the bytes of a sequence's cache on one device."""
    return sum(k.count * (k.padded * k.tokens(tokens) + k.state) for k in cached(plan))


class Engine(NamedTuple):
    """What serves: its name, tokens of a page, the share of memory that weights and cache may take,
    the bytes of a step that it keeps free of that, for how many sequences of a shard, and of the peak rate
    that reading the cache reaches.
    """

    name: str
    page: int
    pool_share: float
    step_bytes: float
    sequences: float
    cache_share: float


def engine_of(plan: ServedPlan) -> Engine:
    """Returns the engine that a plan's times are of."""
    chip, size = plan.topology.chip, plan.size
    if not chip.is_gpu:
        return Engine("sglang-jax or tpu-inference", PAGE, POOL_SHARE, 0.0, math.inf, CACHE_SHARE)
    sequences, tokens = PROFILED.get(chip.generation, PROFILED[""])
    step = LOGIT_BYTES * sequences * size.vocab + STREAM_BYTES * tokens * size.embed
    step += CONTEXT_BYTES[plan.devices > 1]
    return Engine("vLLM", GPU_PAGE, GPU_SHARE, step, sequences, hbm_share(chip))


@dataclass(frozen=True, slots=True)
class Pool:
    """Bytes of one device, and what the pool of all replicas holds of sequences of one length.

    Attributes:
      weights: bytes.
      cache: bytes that are left for the cache; 0 or less where the weights do not fit.
      sequence: bytes of one sequence's cache.
      capacity: bytes of the device.
      requests: sequences that a replica holds at once.
      tokens: of all replicas.
    """

    weights: float
    cache: float
    sequence: float
    capacity: float
    requests: int
    tokens: int


def pool_of(plan: ServedPlan, length: int) -> Pool:
    """Returns the pool of a plan for sequences of that many tokens at most."""
    chip = plan.topology.chip
    weights, engine = weight_bytes(plan), engine_of(plan)
    cache = chip.hbm_bytes / chip.devices_per_chip * engine.pool_share - engine.step_bytes - weights
    paged = math.ceil(length / engine.page) * engine.page
    sequence = cache_bytes(plan, paged)
    shard = max(0.0, cache) / sequence
    data, replicas = plan.along("data"), plan.replicas
    return Pool(
        weights,
        cache,
        sequence,
        chip.device_hbm_bytes,
        int(min(shard, engine.sequences)) * data,
        int(shard * paged * data) * replicas,
    )


def passed_bytes(plan: ServedPlan, length: float) -> float:
    """Returns the bytes of one request's cache in all: what passes from prefill to decode."""
    tensor = plan.along("tensor")
    kept = cached(plan)
    rows = sum(each.count * each.row * each.tokens(length) for each in kept)
    return rows * tensor / plan.repeats + sum(each.count * each.state * tensor for each in kept)

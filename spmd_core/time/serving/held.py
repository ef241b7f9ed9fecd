"""What a device holds of a served model: the matmuls of its weights, and its cache."""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from spmd_core.base import refuse
from spmd_core.experiment import SERVED_DTYPES, ServedPlan
from spmd_core.machine import Chip, Gpu
from spmd_core.time.cost.flops import narrow_cycles
from spmd_core.time.serving.assumed import GPU_PAGE, LANES, PAGE, POOL_SHARE


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
        return self.inner * self.columns * self.times * (2 if self.dtype == "bf16" else 1)


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
    return narrow_cycles(chip, SERVED_DTYPES[dtype]) <= 1


@lru_cache(maxsize=1024)
def products(plan: ServedPlan) -> tuple[WeightMatmul, ...]:
    """Returns the matmuls of a step on one device: projections, mlp or experts, table of outputs."""
    size, dtype, expert = plan.size, plan.weights_dtype, plan.along("expert")
    inside, matrices = plan.devices // expert, 2 if size.gated else 1
    listed = [WeightMatmul("attention", *each, size.layers, dtype) for each in _attention(plan)]
    experts, dense = size.layers - size.dense_layers, size.dense_layers
    if size.experts > 1:
        count, width = experts * size.experts / expert, size.mlp / inside
        listed += [
            WeightMatmul("expert", size.embed, matrices * width, count, dtype),
            WeightMatmul("expert", width, size.embed, count, dtype),
            WeightMatmul("attention", size.embed, size.experts, experts, "bf16"),
        ]
    wide = ((size.shared_mlp, experts), (size.dense_mlp, dense))
    for width, layers in wide if size.experts > 1 else ((size.mlp, size.layers),):
        width /= plan.devices
        listed += [
            WeightMatmul("mlp", size.embed, matrices * width, layers, dtype),
            WeightMatmul("mlp", width, size.embed, layers, dtype),
        ]
    listed.append(WeightMatmul("logits", size.embed, size.vocab / plan.devices, 1, "bf16"))
    return tuple(each for each in listed if each.inner and each.columns and each.times)


def _attention(plan: ServedPlan) -> Iterator[tuple[float, float]]:
    """(inner, columns) of one layer's projections; latent ones absorbed, head by head."""
    size = plan.size
    heads = size.heads / plan.along("tensor")
    out = heads * size.value_size, size.embed
    if not size.kv_rank:
        wide = heads * size.head_dim + plan.key_heads * (size.head_dim + size.value_size)
        yield from ((size.embed, wide), out)
        return
    yield size.embed, size.q_rank + size.kv_rank + size.rope_dim
    yield size.q_rank or size.embed, heads * size.head_dim
    yield from ((size.nope_dim, heads * size.kv_rank), (size.kv_rank, heads * size.value_size), out)


def weight_bytes(plan: ServedPlan) -> float:
    """Returns the bytes of weights on one device, its rows of the embedding among them."""
    size = plan.size
    tables = 0.0 if size.tied else 2 * size.vocab * size.embed / plan.devices
    return sum(each.nbytes for each in products(plan)) + tables


def row_bytes(plan: ServedPlan, *, padded: bool = True) -> float:
    """Returns the bytes of a token's cache in one layer of one device."""
    size = plan.size
    one = size.kv_rank + size.rope_dim or size.head_dim + size.value_size
    if padded and not plan.topology.chip.is_gpu:
        one = -(-one // LANES) * LANES
    return one * (1 if size.kv_rank else plan.key_heads) * (2 if plan.kv_dtype == "bf16" else 1)


def cached_rows(plan: ServedPlan, tokens: float) -> float:
    """Returns the tokens that all layers keep of a sequence: no more than each one's window."""
    windows = Counter(plan.size.layer_windows)
    return sum(count * min(tokens, window or tokens) for window, count in windows.items())


def page_of(plan: ServedPlan) -> int:
    """Returns the tokens of a page."""
    return GPU_PAGE if plan.topology.chip.is_gpu else PAGE


@dataclass(frozen=True, slots=True)
class Pool:
    """Bytes of one device, and what the pool of all replicas holds of sequences of one length.

    Attributes:
      weights: bytes.
      cache: bytes that are left for the cache; 0 or less where the weights do not fit.
      capacity: bytes of the device.
      requests: sequences that a replica holds at once.
      tokens: of all replicas.
    """

    weights: float
    cache: float
    capacity: float
    requests: int
    tokens: int


def pool_of(plan: ServedPlan, length: int) -> Pool:
    """Returns the pool of a plan for sequences of that many tokens at most."""
    chip = plan.topology.chip
    weights = weight_bytes(plan)
    cache = chip.device_hbm_bytes * (1 if chip.is_gpu else POOL_SHARE) - weights
    page = page_of(plan)
    paged = math.ceil(length / page) * page
    each = row_bytes(plan) * cached_rows(plan, paged)
    shard = max(0.0, cache) / each
    data, replicas = plan.along("data"), plan.replicas
    return Pool(
        weights,
        cache,
        chip.device_hbm_bytes,
        int(shard) * data,
        int(shard * paged * data) * replicas,
    )

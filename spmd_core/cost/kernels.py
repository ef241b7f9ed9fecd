"""Pallas kernels, which carry no cost of their own: attention by the work that its blocks do, others by what they move."""

import re
from dataclasses import dataclass

from spmd_core.hlo_text import Instruction
from spmd_core.topologies import Chip

# matmuls of block x block x head_dim that each kernel does per pair of blocks; source: jax.experimental.pallas.ops.tpu.splash_attention
_MATMULS = {"fwd": 2, "dq": 3, "dkv": 4, "fused": 5}
# vector operations per element of the scores, beside the matmuls: mask, softmax and its gradient; counted in the kernel's source
_VECTOR = {"fwd": 12, "dq": 12, "dkv": 13, "fused": 14}
VECTOR_LANES = 1024  # elements of a vector register: 8 x 128
VECTOR_SLOTS = 2.5  # vector operations that a core starts per cycle, of four slots; a guess


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Seconds, FLOPs really done (masked blocks left out), and seconds at the matrix unit's peak."""

    seconds: float
    flops: int
    fastest: float
    name: str


def kernel_cost(instruction: Instruction, operands: list[Instruction], chip: Chip) -> KernelCost:
    """The cost of a Pallas kernel; 0 FLOPs where it is not one that is known here."""
    name = instruction.name
    kind = _attention_kind(instruction)
    if kind is None:
        return KernelCost(0.0, 0, 0.0, name)
    arrays = [o.shape for o in operands if o.shape.dtype in ("bf16", "f32") and len(o.shape.dims) == 4]
    query, key = arrays[0].dims, arrays[1].dims
    batch, heads, length, head_dim = query
    share = _unmasked_share(instruction, length, key[2])
    pairs = batch * heads * length * key[2] * share
    flops = int(2 * _MATMULS[kind] * pairs * head_dim)
    filled = min(1.0, head_dim / chip.matrix_unit)  # a head narrower than the matrix unit leaves part of it idle
    fastest = flops / chip.device_flops
    cores = 2 if chip.generation in ("v4", "v5p") else 1  # megacore: the kernel's grid is split over two cores
    vector = pairs * _VECTOR[kind] / (VECTOR_LANES * VECTOR_SLOTS * cores * chip.clock_hz)
    return KernelCost(fastest / filled + vector, flops, fastest, name)


def _attention_kind(instruction: Instruction) -> str | None:
    text = f"{instruction.name} {instruction.op_name or ''}"
    if "splash" not in text and "flash" not in text:
        return None
    if "dkv" in text:
        return "fused" if 'use_fused_bwd_kernel\\": true' in instruction.rest else "dkv"
    return "dq" if "_dq" in text else "fwd"


def _unmasked_share(instruction: Instruction, queries: int, keys: int) -> float:
    """Share of block pairs that a causal mask leaves: those on or below the diagonal."""
    blocks = {key: int(value) for key, value in re.findall(r'\\"(block_[a-z_]+)\\": (\d+)', instruction.rest)}
    suffix = "_dkv" if "dkv" in instruction.name else "_dq" if "_dq" in instruction.name else ""
    rows = max(1, queries // blocks.get(f"block_q{suffix}", 512))
    columns = max(1, keys // blocks.get(f"block_kv{suffix}", 512))
    kept = sum(min(columns, -(-((row + 1) * columns) // rows)) for row in range(rows))
    return kept / (rows * columns)

"""How long matmuls and flash attention take on a GPU's tensor cores."""

import math
import re
from dataclasses import dataclass, replace
from functools import lru_cache

from spmd_core.machine import Gpu, Topology
from spmd_core.program import Instruction
from spmd_core.time.gpu.constants import (
    FLASH_AGAIN,
    FLASH_BACKWARD,
    FLASH_FORWARD,
    FLASH_HALF,
    FULL_WAVES,
    KERNEL_S,
    SUSTAINED,
    TF32,
    TILES,
)

_EXACT_PASSES = 6  # of a float32 matmul at the highest precision


@lru_cache(maxsize=256)
def sustained(topology: Topology) -> Topology:
    """The topology as a training step finds it: GPUs at the clock that they hold for hours."""
    chip = topology.chip
    if not isinstance(chip, Gpu):
        return topology
    shares = chip.matmul_share * SUSTAINED, chip.fp8_share * SUSTAINED
    slower = replace(chip, matmul_share=shares[0], fp8_share=shares[1])
    return Topology(slower, topology.shape, topology.slices)


def peak_of(gpu: Gpu, element: str, passes: int = 1) -> float:
    """FLOP/s of the data sheet for operands of an element type, as HLO writes it; of float32 in so
    many `passes` as its precision takes.
    """
    if element.startswith("f8"):
        return gpu.fp8_flops or gpu.peak_flops
    if element in ("s8", "u8"):
        return 2 * gpu.peak_flops
    if element == "f64":
        return gpu.float32_flops
    if element != "f32":
        return gpu.peak_flops
    return gpu.peak_flops * TF32 if passes < _EXACT_PASSES else gpu.float32_flops


def tiled_s(
    gpu: Gpu, flops: float, rows: int, columns: int, element: str = "bf16", passes: int = 1
) -> float:
    """Seconds of a matmul with a result [rows, columns]: full waves of tiles. Rows of 0 stand
    for a large one of an unknown shape.
    """
    share = gpu.fp8_share if element.startswith("f8") and gpu.fp8_flops else gpu.matmul_share
    rate = peak_of(gpu, element, passes) * share / FULL_WAVES
    if not rows:
        return KERNEL_S + flops / (rate * FULL_WAVES)
    inner = flops / (2 * rows * columns)
    waves = (
        (-(-rows // high) * -(-columns // wide) / gpu.sms, high * wide / share)
        for (high, wide), share in TILES.items()
    )
    least = min(math.ceil(count) * each for count, each in waves)
    return KERNEL_S + least * gpu.sms * 2 * inner / rate


def flash_s(
    gpu: Gpu,
    way: str,
    heads: float,
    length: int,
    head_dim: float,
    window: int | None = None,
) -> float:
    """Seconds of causal attention by a fused kernel, cuDNN's or FlashAttention, over so many heads
    of all sequences; `way` is forward or backward.
    """
    seen = length if window is None else min(window, length)
    pairs = heads * (length * seen - seen * (seen - 1) / 2)
    flops = 4 * pairs * head_dim
    share = FLASH_FORWARD if way == "forward" else FLASH_BACKWARD / FLASH_AGAIN
    # the exponentials take as long for a narrow head
    share *= seen / (seen + FLASH_HALF) * math.sqrt(min(1.0, head_dim / 128))
    return KERNEL_S + flops / (gpu.peak_flops * share)


_GEMM = ("__cublas$gemm", "__cublas$lt$matmul", "__cublas$lt$matmul$f8", "__triton_gemm")
# cuDNN's own call, and the opaque call of a decoder's step
_FLASH = ("__cudnn$fmha", "flash_attention_")
_WINDOW = re.compile(r"window = (\d+)")


@dataclass(frozen=True, slots=True)
class CallCost:
    """Seconds and FLOPs of a call; `least`: seconds at the tensor cores' peak."""

    kind: str
    seconds: float
    flops: int
    least: float


def call_cost(instruction: Instruction, operands: list[Instruction], gpu: Gpu) -> CallCost | None:
    """The cost of a matmul by cuBLAS, or of flash attention by cuDNN; None of another call."""
    target = instruction.attributes.get("custom_call_target", "").strip('"')
    arrays = [operand.shape for operand in operands if operand.arrays]
    if target.startswith(_GEMM) and len(arrays) > 1:
        left, right = arrays[0], arrays[1]
        out = instruction.arrays[0]
        # [b, m, k] by [b, k, n]: elements are bmk, bkn and bmn
        batch = _batch(left.dims, right.dims, out.dims)
        inner = round((left.elements * right.elements / out.elements / batch) ** 0.5)
        flops = 2 * out.elements * inner
        rows = max(1, left.elements // inner)
        seconds = tiled_s(gpu, flops, rows, max(1, out.elements // rows), left.element)
        return CallCost("matmul", seconds, flops, flops / peak_of(gpu, left.element))
    if target.startswith(_FLASH) and len(arrays) > 2 and len(arrays[0].dims) == 4:
        written = _WINDOW.search(instruction.attributes.get("backend_config", ""))
        return _flash(target, arrays[0].dims, int(written[1]) if written else 0, gpu)
    return None


def _batch(*dims: tuple[int, ...]) -> int:
    """Size of a leading dim that all arrays of three dims and more have alike."""
    first = {each[0] for each in dims if len(each) > 2}
    return first.pop() if len(first) == 1 and all(len(each) > 2 for each in dims) else 1


def _flash(target: str, dims: tuple[int, ...], window: int, gpu: Gpu) -> CallCost:
    """Attention of [batch, length, heads, head_dim], or with heads before the length, which is
    longer where the two differ.
    """
    batch, one, other, head_dim = dims
    length, heads = max(one, other), min(one, other)
    way = "backward" if "backward" in target.lower() else "forward"
    seconds = flash_s(gpu, way, batch * heads, length, head_dim, window or None)
    seen = min(window or length, length)
    flops = 4 * batch * heads * (length * seen - seen * (seen - 1) // 2) * head_dim
    flops = int(flops * FLASH_AGAIN) if way == "backward" else flops
    return CallCost("kernel", seconds, flops, flops / gpu.peak_flops)

"""How long matmuls and flash attention take on a GPU's tensor cores."""

import math
from dataclasses import replace

from spmd_core.machine import Gpu, Topology
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


def sustained(topology: Topology) -> Topology:
    """The topology as a training step finds it: GPUs at the clock that they hold for hours."""
    chip = topology.chip
    if not isinstance(chip, Gpu):
        return topology
    slower = replace(chip, matmul_share=chip.matmul_share * SUSTAINED)
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
    rate = peak_of(gpu, element, passes) * gpu.matmul_share / FULL_WAVES
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

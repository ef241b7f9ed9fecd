"""Calls of NVIDIA's libraries in a compiled module, which carry no cost of their own."""

import re
from dataclasses import dataclass

from spmd_core.machine import Gpu
from spmd_core.program import Instruction
from spmd_core.time.gpu.constants import FLASH_AGAIN
from spmd_core.time.gpu.matmuls import flash_s, peak_of, tiled_s

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

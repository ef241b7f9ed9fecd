"""How long one operation of a compiled module keeps a chip busy: matmuls by FLOPs and cycles, the
rest by HBM bytes.
"""

from dataclasses import dataclass

from spmd_core.cost.constants import (
    FUSED_MATMUL_FLOOR,
    FUSED_MATMUL_LOW,
    HBM_EFFICIENCY,
    KERNEL_HIGH,
    KERNEL_LOW,
    MATMUL_SHARE,
    MEMORY_HIGH,
    OPERATION_S,
    PLAIN_MATMUL_SHARE,
)
from spmd_core.cost.flops import Matmul, matmul, matmuls_in
from spmd_core.cost.kernels import kernel_cost
from spmd_core.cost.traffic import moved_bytes
from spmd_core.hlo.module import HBM, Computation, Instruction, Module
from spmd_core.machine.chips import Chip

NOTHING = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all",
           "partition-id", "replica-id", "add-dependency", "opt-barrier", "copy-done", "slice-done",
           "dynamic-slice-done", "dynamic-update-slice-done", "infeed", "outfeed", "domain",
           "get-dimension-size", "token",}
SMALL_ELEMENTS = 1024  # up to a vector register: scalar work, hidden under the operations around it


@dataclass(frozen=True, slots=True)
class Work:
    """What one operation does. `kind` is matmul, kernel, memory or none; `bound` says which limit
    set the time; `low` and `high` enclose it.
    """

    seconds: float
    kind: str
    flops: int = 0
    nbytes: int = 0
    bound: str = "memory"
    low: float = 0.0
    high: float = 0.0
    least: float = 0.0  # at the peaks of matrix unit and HBM: no machine is faster


def operation(module: Module, instruction: Instruction, computation: Computation,
              chip: Chip) -> Work:
    """The work of a synchronous instruction that is neither a loop nor a collective."""
    if instruction.opcode in NOTHING:
        return Work(0.0, "none")
    if instruction.opcode == "custom-call":
        return kernel(instruction, computation, chip)
    if max((shape.elements for shape in instruction.arrays),
           default=0) <= SMALL_ELEMENTS and instruction.opcode != "fusion":
        return Work(0.0, "none")
    matmuls = _matmuls(module, instruction, computation)
    nbytes = moved_bytes(module, instruction, computation)
    streaming = nbytes / (chip.device_hbm_bandwidth * HBM_EFFICIENCY)
    if matmuls:
        return _matmul_work(instruction, matmuls, nbytes, streaming, chip)
    if instruction.estimated_cycles is None and nbytes == 0:
        return Work(0.0, "none")
    own = min(OPERATION_S, (instruction.estimated_cycles or 0) / chip.clock_hz)
    return Work(max(streaming, own), "memory", 0, nbytes, "memory",
                nbytes / chip.device_hbm_bandwidth, max(streaming, own) * MEMORY_HIGH,
                nbytes / chip.device_hbm_bandwidth)


def _matmuls(module: Module, instruction: Instruction, computation: Computation) -> list[Matmul]:
    if instruction.opcode in ("convolution", "dot"):
        return [matmul(instruction, computation)]
    callee = module.callee(instruction) if instruction.opcode == "fusion" else None
    return matmuls_in(module, callee) if callee is not None else []


def peak_seconds(matmuls: list[Matmul], chip: Chip) -> float:
    """Seconds of matmuls at the matrix unit's rate for their element type."""
    rate = {"s8": 2.0, "u8": 2.0, "s4": 2.0}
    return sum(m.flops * m.passes / (chip.device_flops * rate.get(m.element, 1.0)) for m in matmuls)


def _matmul_work(instruction: Instruction, matmuls: list[Matmul], nbytes: int, streaming: float,
                 chip: Chip) -> Work:
    """The compiler's cycles where they are near the peak; a fused matmul no slower than a floor;
    never faster than the peaks.
    """
    peak = peak_seconds(matmuls, chip)
    cycles = instruction.estimated_cycles
    compute = max(peak,
                  min(cycles / chip.clock_hz,
                      peak / FUSED_MATMUL_FLOOR)) if cycles else peak / MATMUL_SHARE
    flops = sum(m.flops for m in matmuls)
    bound = "compute" if compute >= streaming else "memory"
    low = min(compute, peak / PLAIN_MATMUL_SHARE)
    high = max(compute, min(cycles / chip.clock_hz, peak / FUSED_MATMUL_LOW)) if cycles else compute
    return Work(max(compute, streaming), "matmul", flops, nbytes, bound,
                max(low, nbytes / chip.device_hbm_bandwidth), max(high, streaming),
                max(peak, nbytes / chip.device_hbm_bandwidth))


def kernel(instruction: Instruction, computation: Computation, chip: Chip) -> Work:
    """A Pallas kernel by what its operands say that it does; other custom calls cost what they
    move.
    """
    operands = [computation.by_name[name] for name in instruction.operands
                if name in computation.by_name]
    arrays = [array for each in (*operands, instruction) for array in each.arrays]
    nbytes = sum(array.padded_bytes for array in arrays if array.memory_space == HBM)
    if instruction.attributes.get("custom_call_target") != '"tpu_custom_call"':
        return Work(0.0, "none")
    cost = kernel_cost(instruction, operands, chip)
    streaming = nbytes / (chip.device_hbm_bandwidth * HBM_EFFICIENCY)
    bound = "compute" if cost.seconds >= streaming else "memory"
    seconds = max(cost.seconds, streaming)
    low = max(cost.fastest, cost.seconds / KERNEL_LOW, nbytes / chip.device_hbm_bandwidth)
    return Work(seconds, "kernel", cost.flops, nbytes, bound, low, seconds * KERNEL_HIGH,
                max(cost.flops / chip.device_flops, nbytes / chip.device_hbm_bandwidth))

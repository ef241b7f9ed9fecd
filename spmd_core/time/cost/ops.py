"""How long one operation of a compiled module keeps a chip busy: matmuls by their shape, the rest
by HBM bytes and vector work.
"""

from dataclasses import dataclass

from spmd_core.machine import Chip, Gpu
from spmd_core.program import HBM, Computation, Instruction, Module
from spmd_core.time.cost.constants import (
    BEGIN_LOW,
    KERNEL_HIGH,
    KERNEL_LOW,
    MATMUL_OFF,
    MEMORY_HIGH,
    OPERATION_S,
    hbm_s,
)
from spmd_core.time.cost.flops import Matmul, matmul, matmul_s, matmuls_in
from spmd_core.time.cost.kernels import VECTOR_ELEMENTS, VECTOR_SLOTS, kernel_cost
from spmd_core.time.cost.traffic import moved_bytes
from spmd_core.time.gpu.constants import LAUNCH_S
from spmd_core.time.gpu.matmuls import call_cost, peak_of

NOTHING = {
    "parameter",
    "constant",
    "tuple",
    "get-tuple-element",
    "bitcast",
    "after-all",
    "partition-id",
    "replica-id",
    "add-dependency",
    "opt-barrier",
    "copy-done",
    "slice-done",
    "dynamic-slice-done",
    "dynamic-update-slice-done",
    "infeed",
    "outfeed",
    "domain",
    "get-dimension-size",
    "token",
}
ARITHMETIC = {
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "select",
    "compare",
    "convert",
    "negate",
    "abs",
    "and",
    "or",
    "xor",
    "clamp",
}
TRANSCENDENTAL = {
    "exponential",
    "log",
    "rsqrt",
    "sqrt",
    "tanh",
    "logistic",
    "divide",
    "power",
    "exponential-minus-one",
    "log-plus-one",
    "sine",
    "cosine",
    "erf",
}
SMALL_ELEMENTS = 1024  # up to a vector register: scalar work, hidden under the operations around it


@dataclass(frozen=True, slots=True)
class OperationCost:
    """What one operation does. `kind` is matmul, kernel, memory or none; `bound` is the limit
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


def operation(
    module: Module, instruction: Instruction, computation: Computation, chip: Chip
) -> OperationCost:
    """The work of a synchronous instruction that is neither a loop nor a collective."""
    if instruction.opcode in NOTHING:
        return OperationCost(0.0, "none")
    if instruction.opcode == "custom-call":
        if isinstance(chip, Gpu):
            return library_call(instruction, computation, chip)
        return kernel(instruction, computation, chip)
    if _is_small(instruction, computation):
        return OperationCost(0.0, "none")
    matmuls = _matmuls(module, instruction, computation)
    nbytes = moved_bytes(module, instruction, computation)
    streaming = hbm_s(chip, nbytes)
    vector = 0.0 if chip.is_gpu else vector_s(module, instruction, chip)
    if matmuls:
        return _matmul_work(matmuls, nbytes, streaming, vector, chip)
    if nbytes == 0 and vector == 0.0:
        return OperationCost(0.0, "none")
    begin = (LAUNCH_S if chip.is_gpu else OPERATION_S) if nbytes else 0.0
    seconds = max(streaming, vector, begin)
    least = nbytes / chip.device_hbm_bandwidth
    low, high = max(least, begin / BEGIN_LOW), seconds * MEMORY_HIGH
    return OperationCost(seconds, "memory", 0, nbytes, "memory", low, high, least)


def _is_small(instruction: Instruction, computation: Computation) -> bool:
    """Whether it is scalar work: by its result, and of a sum by what is added up too."""
    if instruction.opcode == "fusion":
        return False
    shapes = list(instruction.arrays)
    if instruction.opcode in ("reduce", "reduce-window"):
        operands = [computation.by_name.get(name) for name in instruction.operands]
        shapes += [shape for operand in operands if operand for shape in operand.arrays]
    return max((shape.elements for shape in shapes), default=0) <= SMALL_ELEMENTS


def vector_s(module: Module, instruction: Instruction, chip: Chip) -> float:
    """Seconds of the arithmetic on elements, were it alone: 1024 elements an operation, four
    operations a cycle; what only one unit does (exponentials, roots) one.
    """
    callee = module.callee(instruction) if instruction.opcode == "fusion" else None
    operations = [instruction] if callee is None else _inside(module, callee)
    registers = sum(
        each.shape.elements
        / VECTOR_ELEMENTS
        * (1.0 if each.opcode in TRANSCENDENTAL else 1 / VECTOR_SLOTS)
        for each in operations
        if each.opcode in ARITHMETIC or each.opcode in TRANSCENDENTAL
    )
    return registers / (chip.clock_hz * chip.cores)


def _inside(module: Module, computation: Computation) -> list[Instruction]:
    operations: list[Instruction] = []
    for each in computation.instructions:
        callee = module.callee(each) if each.opcode == "fusion" else None
        operations += [each] if callee is None else _inside(module, callee)
    return operations


def _matmuls(module: Module, instruction: Instruction, computation: Computation) -> list[Matmul]:
    if instruction.opcode in ("convolution", "dot"):
        return [matmul(instruction, computation)]
    callee = module.callee(instruction) if instruction.opcode == "fusion" else None
    return matmuls_in(module, callee) if callee is not None else []


def peak_seconds(matmuls: list[Matmul], chip: Chip) -> float:
    """Seconds of matmuls at the matrix unit's rate for their element type."""
    if isinstance(chip, Gpu):
        return sum(m.flops / peak_of(chip, m.element, m.passes) for m in matmuls)
    rate = {"s8": 2.0, "u8": 2.0, "s4": 2.0}
    return sum(m.flops * m.passes / (chip.device_flops * rate.get(m.element, 1.0)) for m in matmuls)


def _matmul_work(
    matmuls: list[Matmul], nbytes: int, streaming: float, vector: float, chip: Chip
) -> OperationCost:
    """The longest of the matrix unit's time, HBM's and that of vector work, which hide one another;
    never faster than the peaks.
    """
    compute = max(sum(matmul_s(each, chip) for each in matmuls), vector)
    peak, fastest = peak_seconds(matmuls, chip), nbytes / chip.device_hbm_bandwidth
    bound = "compute" if compute >= streaming else "memory"
    return OperationCost(
        max(compute, streaming),
        "matmul",
        sum(each.flops for each in matmuls),
        nbytes,
        bound,
        max(peak, compute / MATMUL_OFF, fastest),
        max(compute * MATMUL_OFF, streaming),
        max(peak, fastest),
    )


def library_call(instruction: Instruction, computation: Computation, gpu: Gpu) -> OperationCost:
    """A call of cuBLAS or cuDNN by its operands; other calls cost what they move."""
    operands = [
        computation.by_name[name] for name in instruction.operands if name in computation.by_name
    ]
    nbytes = sum(array.padded_bytes for each in (*operands, instruction) for array in each.arrays)
    cost = call_cost(instruction, operands, gpu)
    streaming, least = hbm_s(gpu, nbytes), nbytes / gpu.device_hbm_bandwidth
    if cost is None:
        seconds = max(streaming, LAUNCH_S)
        return OperationCost(
            seconds, "memory", 0, nbytes, "memory", least, seconds * MEMORY_HIGH, least
        )
    off = MATMUL_OFF if cost.kind == "matmul" else KERNEL_HIGH
    seconds, least = max(cost.seconds, streaming), max(least, cost.least)
    bound = "compute" if cost.seconds >= streaming else "memory"
    low = max(least, seconds / off)
    return OperationCost(seconds, cost.kind, cost.flops, nbytes, bound, low, seconds * off, least)


def kernel(instruction: Instruction, computation: Computation, chip: Chip) -> OperationCost:
    """A Pallas kernel by its operands; other custom calls cost what they
    move.
    """
    operands = [
        computation.by_name[name] for name in instruction.operands if name in computation.by_name
    ]
    arrays = [array for each in (*operands, instruction) for array in each.arrays]
    nbytes = sum(array.padded_bytes for array in arrays if array.memory_space == HBM)
    if instruction.attributes.get("custom_call_target") != '"tpu_custom_call"':
        return OperationCost(0.0, "none")
    cost = kernel_cost(instruction, operands, chip)
    nbytes = nbytes if cost.nbytes is None else cost.nbytes
    streaming = hbm_s(chip, nbytes)
    bound = "compute" if cost.seconds >= streaming else "memory"
    seconds = max(cost.seconds, streaming)
    low = max(cost.fastest, cost.seconds / KERNEL_LOW, nbytes / chip.device_hbm_bandwidth)
    return OperationCost(
        seconds,
        "kernel",
        cost.flops,
        nbytes,
        bound,
        low,
        seconds * KERNEL_HIGH,
        max(cost.flops / chip.device_flops, nbytes / chip.device_hbm_bandwidth),
    )

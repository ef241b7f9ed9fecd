"""FLOPs of matmuls as the TPU compiler writes them: convolutions whose windows may be batch
dims.
"""

import math
import re
from dataclasses import dataclass

from spmd_core.machine import Chip, Gpu
from spmd_core.program import Computation, Instruction, Module, Shape
from spmd_core.time.cost.constants import MATMUL_SHARE, NARROW_CYCLES, STREAMED_ROWS
from spmd_core.time.gpu.matmuls import tiled_s

ROWS = 8  # rows of a register: one side of a matmul is padded to these, the others to the unit
_WINDOW = re.compile(r"([a-z_]+)=([0-9x_\-]+)")


@dataclass(frozen=True, slots=True)
class Matmul:
    """Multiply-adds of one matmul as 2 FLOPs each, its element type, and whether every operand is
    in it at full precision. [rows, inner] x [inner, columns]; 0 where that is not known.
    """

    flops: int
    element: str
    passes: int = 1  # bfloat16 passes that a float32 matmul takes at this precision
    rows: int = 0
    columns: int = 0

    @property
    def inner(self) -> int:
        """Size of what is contracted."""
        return max(1, self.flops // (2 * self.rows * self.columns)) if self.rows else 0


def matmuls_in(
    module: Module, computation: Computation, seen: frozenset[str] = frozenset()
) -> list[Matmul]:
    """Matmuls of a computation and of the fusions it calls; not of loops."""
    matmuls = []
    for instruction in computation.instructions:
        if instruction.opcode in ("convolution", "dot"):
            matmuls.append(matmul(instruction, computation))
        elif (
            instruction.opcode == "fusion"
            and (callee := module.callee(instruction))
            and callee.name not in seen
        ):
            matmuls += matmuls_in(module, callee, seen | {computation.name})
    return matmuls


def matmul(instruction: Instruction, computation: Computation) -> Matmul:
    """The matmul that a convolution or dot instruction is."""
    left, right = (computation.by_name[name].shape for name in instruction.operands[:2])
    if instruction.opcode == "dot":
        flops = _dot_flops(instruction, left)
        inner = flops // max(1, 2 * instruction.shape.elements)
        rows = max(1, left.elements // max(1, inner))
        sides = rows, max(1, instruction.shape.elements // rows)
    else:
        flops = _convolution_flops(instruction, left, right)
        sides = _convolution_sides(instruction, left, right)
    precision = instruction.attributes.get("operand_precision") or ""
    passes = 6 if "highest" in precision else 3 if "high" in precision else 1
    return Matmul(flops, left.element, passes if left.element == "f32" else 1, *sides)


def _dot_flops(instruction: Instruction, left: Shape) -> int:
    contracted = [
        int(text)
        for text in re.findall(r"\d+", instruction.attributes.get("lhs_contracting_dims") or "")
    ]
    return 2 * instruction.shape.elements * math.prod(left.dims[dim] for dim in contracted)


def _convolution_sides(instruction: Instruction, left: Shape, right: Shape) -> tuple[int, int]:
    """(rows, columns): a window over which the left side has one position is columns."""
    left_at, right_at, out_at = _labels(instruction)
    out = instruction.shape
    rows, columns = out.dims[out_at["b"]], out.dims[out_at["f"]]
    for label in set(out_at) - {"b", "f"}:
        size = out.dims[out_at[label]]
        if left.dims[left_at[label]] == 1 and right.dims[right_at[label]] > 1:
            columns *= size
        else:
            rows *= size
    return max(1, rows), max(1, columns)


def _labels(instruction: Instruction) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """Label of a convolution's dims -> their places, of the left side, the right and the result."""
    labels = re.match(
        r"([0-9a-z?]+)_([0-9a-z?]+)->([0-9a-z?]+)", instruction.attributes.get("dim_labels") or ""
    )
    if labels is None:
        raise ValueError(f"{instruction.name}: a convolution without dim_labels cannot be counted")
    left, right, out = (
        {label: dim for dim, label in enumerate(labels[group])} for group in (1, 2, 3)
    )
    return left, right, out


def _convolution_flops(instruction: Instruction, left: Shape, right: Shape) -> int:
    """2 x batch x out features x in features x valid window positions, per spatial dim."""
    left_at, right_at, out_at = _labels(instruction)
    out = instruction.shape
    groups = int(instruction.attributes.get("batch_group_count") or 1)
    flops = 2 * out.dims[out_at["b"]] * out.dims[out_at["f"]] * right.dims[right_at["i"]] * groups
    window = {
        key: value.split("x")
        for key, value in _WINDOW.findall(instruction.attributes.get("window") or "")
    }
    for label in sorted(set(out_at) - {"b", "f"}):
        place = int(label)

        def entry(key: str, default: str, place: int = place) -> str:
            return window[key][place] if key in window else default

        pad_low = int(entry("pad", "0_0").split("_")[0])
        flops *= valid_positions(
            left.dims[left_at[label]],
            right.dims[right_at[label]],
            out.dims[out_at[label]],
            pad_low,
            int(entry("stride", "1")),
            int(entry("lhs_dilate", "1")),
            int(entry("rhs_dilate", "1")),
        )
    return flops // groups


def valid_positions(
    size: int, kernel: int, out: int, pad_low: int, stride: int, dilate: int, kernel_dilate: int
) -> int:
    """Pairs of output and kernel positions of one dim that meet an element, rather than padding or
    a hole.
    """
    reach = (size - 1) * dilate  # last position that holds an element
    count = 0
    for k in range(kernel):
        offset = k * kernel_dilate - pad_low  # position of output 0
        if dilate == 1:
            first = max(0, -(offset // stride)) if offset < 0 else 0
            count += max(0, min(out - 1, (reach - offset) // stride) - first + 1)
        else:
            count += sum(
                1
                for o in range(out)
                if 0 <= (at := o * stride + offset) <= reach and at % dilate == 0
            )
    return count


def narrow_cycles(chip: Chip, element: str) -> float:
    """Cycles of a matmul of that element type over those of bfloat16; above 1 where the chip has no
    such units, and the compiler widens operands.
    """
    kind = "f8" if element.startswith("f8") else element.replace("u8", "s8")
    known = NARROW_CYCLES.get(kind, {})
    return known.get(chip.generation, 1.0 if kind not in NARROW_CYCLES else known[""])


def matmul_s(each: Matmul, chip: Chip) -> float:
    """Seconds of a matmul by the matrix unit alone, on a GPU by its tensor cores: padded to full
    units, and for each set of weights the rows that fill and empty the unit. The cores of a
    megacore share the rows.
    """
    if isinstance(chip, Gpu):
        return tiled_s(chip, each.flops, each.rows, each.columns, each.element, each.passes)
    seconds = each.flops * each.passes * narrow_cycles(chip, each.element)
    seconds /= chip.device_flops * MATMUL_SHARE
    if not each.rows:
        return seconds * (1 + chip.matrix_unit / STREAMED_ROWS)
    unit, inner = chip.matrix_unit, each.inner
    sides = min(
        _up(each.rows, ROWS) * _up(each.columns, unit),
        _up(each.rows, unit) * _up(each.columns, ROWS),
    )
    padded = sides * _up(inner, unit) / (each.rows * each.columns * inner)
    streamed = min(STREAMED_ROWS, _up(max(each.rows, each.columns), ROWS) / chip.cores)
    return seconds * padded * (1 + unit / streamed)


def _up(size: float, multiple: int) -> float:
    return -(-size // multiple) * multiple

"""Pallas kernels, which carry no cost of their own: attention by the work that its blocks do,
others by what they move.
"""

import re
from dataclasses import dataclass, replace

from spmd_core.machine import Chip
from spmd_core.program import Instruction
from spmd_core.time.cost.constants import (
    KERNEL_SLACK,
    KERNEL_STALLS,
    KERNEL_STEP_S,
    hbm_s,
)
from spmd_core.time.cost.flops import Matmul, matmul_s

VECTOR_ELEMENTS = 1024  # of a vector register: 8 x 128
# vector operations in one bundle; source: the bundles that libtpu writes with
# --xla_jf_dump_llo_text
VECTOR_SLOTS = 4


@dataclass(frozen=True, slots=True)
class Attention:
    """What a splash attention kernel does per element of the scores.

    `keys`: matmuls with a side of queries or keys; `values`: with one of values; `wide`: of these
    in float32 (the weights by the values, in the forward kernel); each 2 x head_dim FLOPs;
    `vector` operations; `rows`: vector operations per element of the output block, once per block
    of queries.
    Counted in the bundles that the compiler writes for
    jax.experimental.pallas.ops.tpu.splash_attention.
    """

    keys: int
    values: int
    wide: int
    vector: float
    rows: float


_KINDS = {
    "fwd": Attention(1, 0, 1, 9.5, 40),
    "dq": Attention(2, 1, 0, 9, 8),
    "dkv": Attention(2, 2, 0, 9, 10),
    "fused": Attention(3, 2, 0, 11, 14),
}


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Seconds, FLOPs really done (blocks that are masked out do none), and seconds without stalls;
    `nbytes` of HBM where they are not those of all operands.
    """

    seconds: float
    flops: int
    fastest: float
    nbytes: int | None = None


# kinds of kernels -> what they are called
KERNELS = {
    "kernel": "attention kernels",
    "grouped kernel": "grouped matmuls",
    "other kernel": "other kernels",
}
GROUP_SIDE = 1024  # of a block of a grouped matmul, columns and what is summed over
# how the compiler writes the blocks of its own, and how a Pallas kernel is named
_TILING = re.compile(r'ragged_dot_tiling="(\d+),(\d+),(\d+)"')
# how the decoder names its scope
_WINDOW = re.compile(r"attention within (chunks of )?(\d+)/")
_EVERY = re.compile(r"every pair/")  # the same, of a ring's calls over keys of other devices
_LAST = re.compile(r"last of (\d+)/")  # and of keys gathered for queries in their own order
_VISITED = re.compile(r"/(\d+) experts, (\d+) rows/")  # the same, of a serving step's groups
_GROUPED = re.compile(r"ragged-dot-|t?gmm(\.|$|_)")


def grouped_cost(
    rows: int,
    inner: int,
    columns: int,
    groups: int,
    block: tuple[int, int],
    chip: Chip,
    element: str = "bf16",
) -> KernelCost:
    """The cost of rows in groups, each by a matrix [inner, columns] of its own: blocks of rows are
    multiplied once for each group in them, and each block reads what it multiplies.

    `block` is its rows, and its largest side besides.
    """
    high, wide = block
    steps = -(-rows // high) + groups - 1
    sides = [min(wide, side) for side in (inner, columns)]
    one = Matmul(2 * high * inner * columns, element, 1, high, columns)
    matrix = steps * matmul_s(one, chip)
    parts = -(-inner // sides[0]) * -(-columns // sides[1])
    operand = 2 if element == "bf16" else 1
    nbytes = operand * steps * parts * sides[0] * (sides[1] + high) + 2 * rows * columns
    fastest = max(one.flops * steps / chip.device_flops, nbytes / chip.device_hbm_bandwidth)
    return KernelCost(max(matrix, hbm_s(chip, nbytes)), 2 * rows * inner * columns, fastest)


def kernel_kind(instruction: Instruction) -> str:
    """The share of a step that a kernel counts to: `kernel` of attention, `grouped kernel` of
    grouped matmuls, else `other kernel`.
    """
    if _GROUPED.match(instruction.name):
        return "grouped kernel"
    target = instruction.attributes.get("custom_call_target") or ""
    text = f"{instruction.name} {instruction.op_name or ''} {target}"
    is_attention = any(word in text for word in ("splash", "flash", "fmha", "attention"))
    return "kernel" if is_attention else "other kernel"


def _grouped(
    instruction: Instruction, operands: list[Instruction], chip: Chip
) -> KernelCost | None:
    """The cost of a grouped matmul; None for another kernel.

    Forward and for the rows' gradient: [rows, inner] by [groups, inner, columns], in either order
    of sides; for the weights' gradient: [inner, rows] by [rows, columns], with groups of results.
    """
    arrays = [o.shape.dims for o in operands if o.shape.element in ("bf16", "f32")]
    flat = [dims for dims in arrays if len(dims) == 2]
    of_groups = [dims for dims in (*arrays, instruction.shape.dims) if len(dims) == 3]
    if not _GROUPED.match(instruction.name) or not flat or not of_groups:
        return None
    groups, inner, columns = of_groups[0]
    rows = next((side for side in flat[0] if side not in (inner, columns)), max(flat[0]))
    written = _TILING.search(str(instruction.attributes))
    high = int(written[1]) if written else _block_rows(operands, rows, groups)
    wide = max(int(written[2]), int(written[3])) if written else GROUP_SIDE
    return grouped_cost(rows, inner, columns, groups, (high, wide), chip)


def _served(instruction: Instruction, operands: list[Instruction], chip: Chip) -> KernelCost | None:
    """As `_grouped` of a serving step, whose scope names the experts that its rows visit: no others
    are read.
    """
    visited = _VISITED.search(instruction.op_name or "")
    stacks = [o.shape for o in operands if len(o.shape.dims) == 3]
    if not visited or not stacks or not _GROUPED.match(instruction.name):
        return None
    (groups, inner, columns), element = stacks[0].dims, stacks[0].element
    count, rows = int(visited[1]), int(visited[2])
    slots = instruction.shape.dims[0]
    written = _TILING.search(str(instruction.attributes))
    high = int(written[1]) if written else _block_rows(operands, slots, groups)
    wide = max(int(written[2]), int(written[3])) if written else GROUP_SIDE
    cost = grouped_cost(rows, inner, columns, count, (high, wide), chip, element)
    others = rows * (inner + columns) * 2
    return replace(cost, nbytes=stacks[0].padded_bytes * count // groups + others)


def _block_rows(operands: list[Instruction], rows: int, groups: int) -> int:
    """Rows of a block, by the kernel's list of the groups that its blocks are of: as many as there
    are blocks, and one more for every group but the first.
    """
    lists = [o.shape.dims[0] for o in operands if o.shape.element == "s32" and o.shape.dims]
    steps = max(lists, default=0) - groups + 1
    return -(-rows // steps) if steps > 0 else 512


def kernel_cost(instruction: Instruction, operands: list[Instruction], chip: Chip) -> KernelCost:
    """The cost of a Pallas kernel; nothing where it is not one that is known here."""
    if grouped := _served(instruction, operands, chip) or _grouped(instruction, operands, chip):
        return grouped
    matching = [
        o.shape.dims
        for o in operands
        if o.shape.element in ("bf16", "f32") and len(o.shape.dims) in (3, 4)
    ]
    kind = _attention_kind(instruction, len(matching[0]) if matching else 0)
    # [batch, heads, length, head_dim]: `vmap` leaves out a batch of one sequence
    arrays = [dims if len(dims) == 4 else (1, *dims) for dims in matching]
    if kind is None or len(arrays) < 2:
        return KernelCost(0.0, 0, 0.0)
    batch, heads, queries, head_dim = arrays[0]
    keys = arrays[1][2]
    rows, columns, kept = _blocks(instruction, queries, keys, kind)
    values = arrays[2][3] if len(arrays) > 2 else head_dim
    query = (batch, heads, queries, head_dim)
    return attention_cost(kind, query, keys, (rows, columns, kept), chip, values)


def attention_cost(
    kind: str,
    query: tuple[float, float, int, int],
    keys: int,
    blocks: tuple[int, int, float],
    chip: Chip,
    value_dim: int = 0,
) -> KernelCost:
    """The cost of a splash attention kernel: fwd, dq, dkv, or fused for all gradients at once.

    `query` is [batch, heads, length, head_dim]; `blocks` are blocks of queries, blocks of keys, and
    pairs of them that are computed; `value_dim` of values, where it is another than head_dim.
    """
    (batch, heads, queries, head_dim), (rows, columns, kept) = query, blocks
    value_dim = value_dim or head_dim
    what = _KINDS[kind]
    pairs = batch * heads * queries * keys * kept / (rows * columns)
    of_values = what.values + what.wide
    flops = int(2 * pairs * (what.keys * head_dim + of_values * value_dim))
    # megacore: the kernel's grid is split over two cores
    cores = chip.cores
    rate = chip.device_flops / cores / chip.clock_hz  # per cycle
    # a head that does not fill the unit leaves part of it idle
    filled, value = (
        -(-each // chip.matrix_unit) * chip.matrix_unit for each in (head_dim, value_dim)
    )
    # the larger unit takes two bfloat16 rows per cycle, one float32 row
    slower = 2 if chip.matrix_unit == 256 else 1
    matrix = 2 * (filled * what.keys + value * (what.values + slower * what.wide)) / rate
    vector = what.vector / (VECTOR_ELEMENTS * VECTOR_SLOTS)
    finish = batch * heads * queries * value_dim * what.rows / (VECTOR_ELEMENTS * VECTOR_SLOTS)
    cycles = (pairs * max(matrix, vector) * KERNEL_SLACK + finish) / cores
    steps = batch * heads * rows * columns / cores * KERNEL_STEP_S
    bundles = cycles / chip.clock_hz + steps
    return KernelCost(bundles * KERNEL_STALLS, flops, bundles)


def _attention_kind(instruction: Instruction, query_dims: int) -> str | None:
    text = f"{instruction.name} {instruction.op_name or ''}"
    if "splash" not in text and "flash" not in text:
        return None
    if "dkv" in instruction.name:
        # the kernel that makes all three gradients leaves that of the queries once per block of
        # keys, in a dim more
        return (
            "fused" if any(len(shape.dims) > query_dims for shape in instruction.arrays) else "dkv"
        )
    return "dq" if "_dq" in instruction.name else "fwd"


def _blocks(instruction: Instruction, queries: int, keys: int, kind: str) -> tuple[int, int, float]:
    """(blocks of queries, blocks of keys, pairs of them that are computed).

    A causal mask leaves the pairs on and below the diagonal. A sliding window leaves fewer; the
    grid then holds only the blocks of a row that matter, and its width shows in the kernel's table
    of blocks, s8[heads, rows, width]. The grid of the kernel of all gradients holds every block,
    and skips what the window leaves out: the program's scope names that window.
    """
    sizes = {
        key: int(value)
        for key, value in re.findall(
            r'\\"(block_[a-z_]+)\\": (\d+)', instruction.attributes.get("frontend_attributes", "")
        )
    }
    suffix = {"dkv": "_dkv", "fused": "_dkv", "dq": "_dq"}.get(kind, "")
    rows = max(1, queries // sizes.get(f"block_q{suffix}", 512))
    columns = max(1, keys // sizes.get(f"block_kv{suffix}", 512))
    table = re.search(
        r"s8\[\d+,(\d+),(\d+)\]", instruction.attributes.get("operand_layout_constraints") or ""
    )
    if _EVERY.search(instruction.op_name or ""):
        return rows, columns, rows * columns
    named, last = (each.search(instruction.op_name or "") for each in (_WINDOW, _LAST))
    among, sides = max(1, keys // queries), (queries // rows, keys // columns)
    if named and named[1]:  # keys may be gathered for queries of a device
        kept = chunk_pairs(rows * among, columns, int(named[2]), *sides)
        return rows, columns, kept / among
    if kind == "fused" and named:
        width = window_width(int(named[2]), *sides, columns)
        return rows, columns, kept_pairs(rows, columns, width)
    sides = (int(table[1]), int(table[2])) if table else (rows, columns)
    width = columns if sorted(sides) == sorted((rows, columns)) else min(sides)
    kept = kept_pairs(rows * among, columns, width) / among
    return rows, columns, kept * (2 - 1 / int(last[1])) if last and width == columns else kept


def window_width(window: int | None, high: int, wide: int, columns: int) -> int:
    """Blocks of `wide` keys that one block of `high` queries sees, of so many columns."""
    return columns if window is None else min(columns, -(-(window + high) // wide))


def kept_pairs(rows: int, columns: int, width: int) -> int:
    """Pairs of blocks on and below the diagonal, at most `width` of them for a block of queries."""
    return sum(min(columns, width, -(-((row + 1) * columns) // rows)) for row in range(rows))


def chunk_pairs(rows: int, columns: int, chunk: int, high: int, wide: int) -> int:
    """Pairs of blocks, `high` queries by `wide` keys, on and below the diagonal and within a chunk.

    >>> chunk_pairs(4, 4, 2, 1, 1), chunk_pairs(4, 4, 4, 1, 1)
    (6, 10)
    """
    kept = 0
    for row in range(rows):
        first = row * high // chunk * chunk // wide
        kept += min(columns, -(-(row + 1) * high // wide)) - first
    return kept

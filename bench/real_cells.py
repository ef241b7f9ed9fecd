"""The cells of bench/real_sizes.py: each pair of two factors' values is in one of them."""

import itertools
import math
import os
import random
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from spmd_core.base import Inexpressible, RequestError
from spmd_core.experiment import Experiment, parse_experiment
from spmd_core.script import program_text
from spmd_core.workloads import DTYPE_BYTES, Workload, get_workload

MIB = (1, 4, 16, 64, 256)  # of the largest array
MOST_BYTES = 2**30  # of all operands and results of a cell: a strategy holds them, and another
ONE_TO_EACH = ("pmap", "jit(pmap)", "pmap(jit)")  # map a dim that is as large as the mesh
TIMING = {"samples": 2, "min_seconds": 0.0}
MESHES = {"even": {"x": 2, "y": 4}, "odd": {"x": 3}}
OWN = """
import jax
from spmd_core.declare import workload


@workload(
    operands={"x": ("rows", "cols"), "scale": ("cols",)},
    results={"y": ("rows", "cols")},
    defaults={"rows": 64, "cols": 64},
)
def scaled_softmax(x, scale):
    return jax.nn.softmax(x, axis=-1) * scale
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """A workload at any size: dims that stay small, those that grow, and those that grow where the
    leading one is 1."""

    options: dict[str, Any]
    small: dict[str, int]
    grown: tuple[str, ...]
    lead: str | None = None  # the dim that is 1 in cells of a leading one
    beside: tuple[str, ...] = ()  # which grow then; () those of `grown` that are left


SHAPES: dict[str, Shape] = {
    "array": Shape({}, {}, ("d0", "d1"), "d0"),
    "elementwise": Shape({}, {}, ("rows", "cols"), "rows"),
    "contraction": Shape({}, {}, ("rows", "cols"), "rows"),
    "layer": Shape({}, {"in": 32}, ("batch", "out"), "batch", ("in", "out")),
    "dot": Shape({}, {}, ("n", "k"), "n"),
    "product": Shape({}, {"k": 64}, ("m", "n"), "m", ("k", "n")),
    "matmul": Shape({}, {"batch": 4, "k": 64}, ("m", "n"), "batch", ("m", "n", "k")),
    "convolve": Shape({}, {"width": 5}, ("length", "rows"), "rows"),
    **{
        f"normalize {over}": Shape({"over": over}, {}, ("rows", "cols"), "rows")
        for over in ("rows", "cols", "both")
    },
    "mlp": Shape({}, {"in": 32, "hidden": 128}, ("batch", "out"), "batch", ("in", "hidden")),
    "attention": Shape({}, {"sequence": 128, "head_dim": 64}, ("batch", "heads"), "batch"),
    "transformer_block": Shape(
        {},
        {"batch": 2, "sequence": 64, "embed": 128, "heads": 4, "head_dim": 16, "mlp": 64},
        ("batch",),
        "batch",
        ("mlp",),
    ),
    "train_step linear": Shape({"model": "linear"}, {"batch": 32}, ("in", "out"), "batch"),
    "train_step two-layer": Shape(
        {"model": "two-layer"}, {"batch": 32, "out": 32}, ("in", "hidden"), "batch"
    ),
    **{
        f"transfer {way}": Shape({"direction": way}, {}, ("bytes",))
        for way in ("host_to_device", "device_to_host", "resident")
    },
    "scaled_softmax": Shape({}, {}, ("rows", "cols"), "rows"),
    "pipeline": Shape(
        {}, {"microbatches": 24, "repeats": 1, "stages": 8}, ("rows", "embed"), "rows"
    ),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """One value of each factor."""

    shape: str
    strategy: str
    dtype: str
    mib: int
    parity: str  # of every dim: a power of two, or odd; and of the mesh
    leading: str  # "one" where the leading dim is 1

    @property
    def name(self) -> str:
        """Its factors in one line."""
        return (
            f"{self.shape}, {self.strategy}, {self.dtype}, {self.mib} MiB, {self.parity}, "
            f"leading {self.leading}"
        )

    @property
    def what(self) -> Workload:
        """Its workload, as its options make it."""
        return get_workload(self.shape.partition(" ")[0]).chosen(SHAPES[self.shape].options)


def dims_of(cell: Cell) -> dict[str, int]:
    """Sizes at which the largest array has the bytes of the cell, less a few rows where it is
    odd."""
    shape, what = SHAPES[cell.shape], cell.what
    grown, fixed = shape.grown, dict(shape.small)
    if cell.leading == "one" and shape.lead:
        grown = tuple(dim for dim in shape.beside or grown if dim != shape.lead)
        fixed[shape.lead] = 1
    devices = math.prod(MESHES[cell.parity].values())
    if cell.strategy in ONE_TO_EACH and cell.leading != "one":
        mapped = what.mapped_dim(dict.fromkeys(what.dims, devices))
        grown = tuple(dim for dim in grown if dim != mapped)
        fixed[mapped] = devices
    sizes = fixed | dict.fromkeys(grown, 8)
    for dim in itertools.cycle(grown):
        if _largest_bytes(cell, sizes) >= cell.mib * 2**20:
            break
        sizes[dim] *= 2
    if cell.parity == "odd":  # odd multiples of the three devices
        sizes = {dim: size if size in (1, devices) else _odd(size) for dim, size in sizes.items()}
    return sizes


def _odd(size: int) -> int:
    threes = size // 3 if size > 64 else -(-size // 3)
    return 3 * (threes if threes % 2 else threes - 1 if threes > 1 else threes + 1)


def _sizes(cell: Cell, sizes: dict[str, int]) -> dict[str, int]:
    """With the dims that follow from others."""
    what, found = cell.what, dict(sizes)
    for dim in what.dims:
        if dim not in found and dim not in what.optional_dims:
            found[dim] = what.default_size(dim, found)
    return found


def _largest_bytes(cell: Cell, sizes: dict[str, int]) -> int:
    sizes = _sizes(cell, sizes)
    return DTYPE_BYTES[cell.dtype] * max(
        math.prod(array.shape(sizes)) for array in cell.what.arrays
    )


def _all_bytes(cell: Cell, sizes: dict[str, int]) -> int:
    sizes = _sizes(cell, sizes)
    pairs = sizes["heads"] * sizes["batch"] * sizes["sequence"] ** 2 if "heads" in sizes else 0
    return cell.what.operand_bytes(sizes, cell.dtype) + DTYPE_BYTES[cell.dtype] * (
        sum(math.prod(array.shape(sizes)) for array in cell.what.results) + 2 * pairs
    )


def experiment_of(cell: Cell) -> Experiment | None:
    """The cell beside a baseline, sharded over some of its dims; None where it cannot be
    expressed or is too large."""
    sizes = dims_of(cell)
    if _all_bytes(cell, sizes) > MOST_BYTES:
        return None
    sharding = _sharding(replace(cell, mib=1, dtype=cell.what.dtypes[0]))
    return None if sharding is None else _parsed(cell, sizes, dict(sharding))


@cache
def _sharding(cell: Cell) -> tuple[tuple[str, str], ...] | None:
    """The first of some shardings that the cell's strategy can express."""
    sizes = dims_of(cell)
    dims, axes = list(sizes), list(MESHES[cell.parity])
    random.Random(zlib.crc32(cell.name.encode())).shuffle(dims)
    pairs = [
        tuple(zip(chosen, axes, strict=True)) for chosen in itertools.permutations(dims, len(axes))
    ]
    single = [((dim, axis),) for axis in axes for dim in dims]
    for sharding in (*pairs[:12], *single, ()):
        found = _parsed(cell, sizes, dict(sharding))
        if found is None:
            continue
        try:
            for strategy in found.strategies:
                program_text(found, strategy)
        except Inexpressible:
            continue
        return sharding
    return None


def _parsed(cell: Cell, sizes: dict[str, int], sharding: dict[str, str]) -> Experiment | None:
    beside = "auto" if cell.strategy == "single" else "single"
    what = cell.what
    try:
        return parse_experiment(
            {
                "target": "cpu:8",
                "mesh": MESHES[cell.parity],
                "workload": what.name,
                "options": SHAPES[cell.shape].options,
                "dims": sizes,
                "dtype": cell.dtype,
                "sharding": sharding,
                "timing": TIMING,
                "strategies": [cell.strategy] if what.is_bare_array else [beside, cell.strategy],
            }
        )
    except RequestError:
        return None


def every_cell() -> Iterator[Cell]:
    """All that can be run; the largest in one dtype of each workload."""
    for number, shape in enumerate(SHAPES):
        what = Cell(shape, "", "", 0, "", "").what
        for strategy, dtype, mib, parity, leading in itertools.product(
            what.strategies, what.dtypes, MIB, MESHES, ("many", "one")
        ):
            cell = Cell(shape, strategy, dtype, mib, parity, leading)
            if mib == MIB[-1] and dtype != what.dtypes[number % len(what.dtypes)]:
                continue
            if leading == "one" and SHAPES[shape].lead is None:
                continue
            if experiment_of(cell) is not None:
                yield cell


def pairwise(cells: Sequence[Cell]) -> list[Cell]:
    """Some of these cells that have every pair of two factors' values that any of them has, the
    smaller ones first."""
    holding: dict[tuple[Any, ...], list[Cell]] = {}
    for cell in cells:
        for pair in _pairs(cell):
            holding.setdefault(pair, []).append(cell)
    draw, left, chosen = random.Random(0), set(holding), []
    for pair, among in sorted(holding.items(), key=lambda each: (len(each[1]), str(each[0]))):
        if pair not in left:
            continue
        some = draw.sample(among, min(len(among), 60))
        best = max(some, key=lambda cell: (len(left & set(_pairs(cell))), cell.mib < MIB[-1]))
        left -= set(_pairs(best))
        chosen.append(best)
    return sorted(chosen, key=lambda cell: (cell.mib, cell.name))


def _pairs(cell: Cell) -> tuple[tuple[Any, ...], ...]:
    return tuple(itertools.combinations(enumerate(astuple(cell)), 2))


def declare_own(folder: Path) -> None:
    """The function of one's own among the workloads, before anything asks for them."""
    own = folder / "own.py"
    own.write_text(OWN, "utf-8")
    os.environ["SPMD_LAB_WORKLOADS"] = str(own)

"""Registered small programs: which there are, and their text with the mesh that they run on. Reads
files, imports none.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from spmd_core.workloads.workload import Workload


class Range(NamedTuple):
    """What a constant may be set to, and the bytes that the process takes for each unit of it."""

    name: str
    low: int
    high: int
    each_bytes: int = 0


RANGES: dict[str, tuple[Range, ...]] = {
    "affine_batches": (Range("BATCH", 1, 1_000),),
    "branching": (Range("X", 1, 1_000),),
    "function_transformations": (
        Range("A", 0, 1_000),
        Range("B", 0, 1_000),
    ),
    "in_place": (Range("ROW", 0, 2),),
    "linear_gradient": (Range("STEPS", 1, 200),),
    "logistic_vmap": (Range("SAMPLES", 2, 50),),
    "many_rows": (
        Range("ROWS", 64, 10_000_000, 90),
        Range("CALLS", 3, 1_000),
    ),
    "min_max_vmap": (Range("BATCH", 1, 30),),
    "network_gradient": (
        Range("STEPS", 1, 200),
        Range("HIDDEN", 1, 1_024),
    ),
    "numbers_over_devices": (Range("SEED", 0, 1_000_000),),
    "numpy_against_jit": (
        Range("SIZE", 8, 4_000),
        Range("CALLS", 3, 1_000),
    ),
    "old_random_numbers": (Range("SEED", 0, 1_000_000),),
    "one_key_twice": (Range("SEED", 0, 1_000_000),),
    "partial_derivatives": (
        Range("X", 0, 1_000),
        Range("Y", 0, 1_000),
    ),
    "pmap_arguments": (Range("EXPONENT", 0, 10),),
    "pmap_axes_out": (Range("DEVICES", 2, 8),),
    "pmap_fewer_rows": (Range("ROWS", 1, 8),),
    "pmap_more_rows": (Range("BLOCK", 2, 1_000),),
    "pmap_psum": (Range("COUNT", 2, 8),),
    "quadratic": (Range("X", 0, 10_000),),
    "six_jaxprs": (Range("BLOCK", 1, 1_000),),
    "six_timings": (
        Range("RUNS", 3, 101),
        Range("CALLS", 1, 10_000),
    ),
    "two_processes": (Range("EACH", 1, 4),),
    "vdot_of_ones": (Range("LENGTH", 1, 1_000_000),),
    "vmap_in_axes": (Range("B", 0, 1_000),),
}


SMALL_PROGRAM = Workload(
    name="program",
    title="Small program",
    formula="a registered program",
    kind="program",
    dims=(),
    defaults={},
    operands=(),
    results=(),
    flops=lambda sizes: 0,
    strategies=("as_written",),
    default_strategies=("as_written",),
)

_CONSTANT = re.compile(r"^(?P<name>[A-Z][A-Z_]*) = (?P<value>[\d_]+)$", re.MULTILINE)
_PROGRAMS = resources.files("spmd_core") / "script" / "programs" / "recipes"


@cache
def program_names() -> tuple[str, ...]:
    """Names of the registered small programs, in alphabetical order."""
    names = (entry.name for entry in _PROGRAMS.iterdir())
    return tuple(
        sorted(
            name.removesuffix(".py")
            for name in names
            if name.endswith(".py") and not name.startswith("_")
        )
    )


@cache
def _text_of(name: str) -> str:
    return (_PROGRAMS / f"{name}.py").read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Size:
    """A size by the name of its option, its value in the file, and what may be chosen.

    `each_bytes` is the peak memory of the process per unit of the size.
    """

    name: str
    default: int
    low: int
    high: int
    each_bytes: int = 0


@cache
def program_sizes(program: str) -> Mapping[str, Size]:
    """Option name -> size, in the order of the file; empty where the program has none to choose."""
    ranges, sizes = {each.name: each for each in RANGES.get(program, ())}, {}
    for match in _CONSTANT.finditer(_text_of(program)):
        if each := ranges.get(match["name"]):
            name, default = each.name.lower(), int(match["value"])
            sizes[name] = Size(name, default, each.low, each.high, each.each_bytes)
    return sizes


def with_sizes(program: str, chosen: Mapping[str, object]) -> str:
    """The text of a program's file with the chosen sizes, each with what may be chosen."""
    sizes = program_sizes(program)

    def replaced(match: re.Match[str]) -> str:
        size = sizes.get(match["name"].lower())
        if size is None:
            return match[0]
        value = chosen.get(size.name)
        written = match["value"] if value is None else f"{value:_}"
        each = f", {size.each_bytes:_} bytes each" if size.each_bytes else ""
        return f"{match['name']} = {written}  # {size.low:_} to {size.high:_}{each}"

    return _CONSTANT.sub(replaced, _text_of(program))

"""What a workload is: operands and results with named dims, FLOPs, bytes and options, as data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spmd_core.strategies import SHARDING_STRATEGIES

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int32": 4, "int8": 1}
FLOATS = ("float32", "bfloat16", "float16")
Dims = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Array:
    """An operand or a result: a name and the names of its dims, in order."""

    name: str
    dims: tuple[str, ...]

    def shape(self, sizes: Dims) -> tuple[int, ...]:
        """Sizes of the dims, leaving out optional dims that were left out."""
        return tuple(sizes[dim] for dim in self.dims if dim in sizes)

    def present(self, sizes: Dims) -> tuple[str, ...]:
        """Names of the dims, leaving out optional dims that were left out."""
        return tuple(dim for dim in self.dims if dim in sizes)


@dataclass(frozen=True, slots=True)
class Whole:
    """An option that is a whole number: its default, and the least and greatest that may be chosen."""

    default: int
    low: int
    high: int


Option = tuple[str, ...] | Whole  # words to choose from, the first the default; or a range


@dataclass(frozen=True, slots=True)
class Workload:
    """A computation as data. `flops` counts one execution over the whole mesh, a multiply-add as two."""

    name: str
    title: str
    formula: str
    dims: tuple[str, ...]
    defaults: Dims
    operands: tuple[Array, ...]
    results: tuple[Array, ...]
    flops: Callable[[Dims], int] = field(repr=False)
    optional_dims: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = (*FLOATS, "int32")  # the first is the default
    strategies: tuple[str, ...] = SHARDING_STRATEGIES
    default_strategies: tuple[str, ...] = ("single", "auto", "constrained", "shard_map")
    contracted: tuple[str, ...] = ()  # the dims that are summed over
    terms: Callable[[Dims], int] | None = field(default=None, repr=False)  # terms behind one element; None: the contracted dims' product
    integer_result: bool = False  # int32 operands give an int32 result
    uses_precision: bool = False
    function: str = ""  # in the workload's program file; "": as the workload is named
    between: tuple[Array, ...] = ()  # arrays of the program that are neither operand nor result, whose sharding it names
    gathered: tuple[str, ...] = ()  # dims that shard_map and types want whole: operands that are cut along them are gathered
    constants: Mapping[str, float] = field(default_factory=dict)  # numbers that the program file names in capitals
    sampled: tuple[str, ...] = ()  # of a large result the reference is computed on some indices of the first of these dims that is there; (): all
    halo: tuple[str, str] | None = None  # (dim, width): a shard needs width // 2 elements of its neighbours along dim
    at_most: tuple[tuple[str, str], ...] = ()  # (dim, other): dim is at most as large as other
    cut: str = ""  # the dim that a screen shards at first; "": the first one
    mapped: str | None = None  # the dim that vmap and pmap map over; None: the first dim of the first result
    derived: tuple[tuple[str, str, tuple[str, ...]], ...] = ()  # (operand, function of the program file, operands that it takes): instead of the draw
    memory: Mapping[str, str] = field(default_factory=dict)  # memory kinds that are not `device` by default
    carried: tuple[tuple[str, str], ...] = ()  # (result, operand): what a training run feeds back, step by step
    curve: str | None = None  # the result that a training run draws, a number
    moves: bool = False  # it computes nothing: bytes per second is what counts
    options: Mapping[str, Option] = field(default_factory=dict)
    variants: Mapping[str, Workload] = field(default_factory=dict, repr=False)  # by the first option's value
    source: str | None = None  # hash of the file that declares it, where it is the user's own

    def array(self, name: str) -> Array:
        """The operand or result of that name."""
        return next(array for array in self.arrays if array.name == name)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Operands, then results."""
        return self.operands + self.results

    def chosen(self, options: Mapping[str, Any]) -> Workload:
        """This workload as these options make it: they may change its arrays, dims and sums."""
        return self.variants.get(options.get(next(iter(self.options), ""), ""), self)

    def mapped_dim(self, sizes: Dims) -> str:
        """The dim that vmap and pmap map over unless told otherwise: the first of the result, else of the operands."""
        if self.mapped is not None and self.mapped in sizes:
            return self.mapped
        return next(dim for array in (*self.results[:1], *self.operands) for dim in array.present(sizes))

    def result_dtype(self, dtype: str) -> str:
        """Dtype of the results: int32 operands of a float function are promoted to float32, as JAX does."""
        return "float32" if dtype == "int32" and not self.integer_result else dtype

    def operand_bytes(self, sizes: Dims, dtype: str) -> int:
        """Bytes of all operands, unsharded."""
        return sum(element_count(array.shape(sizes)) for array in self.operands) * DTYPE_BYTES[dtype]

    def result_bytes(self, sizes: Dims, dtype: str) -> int:
        """Bytes of all results, unsharded."""
        return sum(element_count(array.shape(sizes)) for array in self.results) * DTYPE_BYTES[self.result_dtype(dtype)]

    def term_count(self, sizes: Dims) -> int:
        """How many terms are added for one element of a result: what bounds its rounding error."""
        return self.terms(sizes) if self.terms else element_count(tuple(sizes.get(dim, 1) for dim in self.contracted))


def element_count(shape: tuple[int, ...]) -> int:
    """Product of the sizes; exact, since Python integers do not overflow."""
    total = 1
    for size in shape:
        total *= size
    return total

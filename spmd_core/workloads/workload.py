"""A workload as data: operands and results with named dims, FLOPs, bytes and options."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spmd_core.fields import DRAWS, Field, MemoryKind
from spmd_core.plan import Plan
from spmd_core.workloads.strategies import SHARDING_STRATEGIES

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int32": 4, "int8": 1}
FLOATS = ("float32", "bfloat16", "float16")
Dims = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Array:
    """An operand or a result: a name and the names of its dims, in order; the sharding table does
    not apply to those in `unsharded`. `dtype` is its own, "" where it is the experiment's.
    """

    name: str
    dims: tuple[str, ...]
    unsharded: tuple[str, ...] = ()
    dtype: str = ""

    def shape(self, sizes: Dims) -> tuple[int, ...]:
        """Sizes of the dims, without omitted optional dims."""
        return tuple(sizes[dim] for dim in self.dims if dim in sizes)

    def present(self, sizes: Dims) -> tuple[str, ...]:
        """Names of the dims, without omitted optional dims."""
        return tuple(dim for dim in self.dims if dim in sizes)

    def axes(self, dim: str, table: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """The mesh axes that shard a dim of this array by the sharding table."""
        return () if dim in self.unsharded else table.get(dim, ())

    def spec(
        self, sizes: Dims, table: Mapping[str, tuple[str, ...]]
    ) -> tuple[tuple[str, ...], ...]:
        """The mesh axes that shard each present dim, by the sharding table."""
        return tuple(self.axes(dim, table) for dim in self.present(sizes))


@dataclass(frozen=True, slots=True)
class AtMost:
    """A dim that is at most as large as another."""

    dim: str
    other: str


@dataclass(frozen=True, slots=True)
class Divides:
    """A dim that divides another, and is as large where it is not given."""

    dim: str
    other: str


@dataclass(frozen=True, slots=True)
class Program:
    """Facts about a workload's program file that the strategies' program texts need."""

    function: str = ""  # "": as the workload is named
    file: str = ""  # under script/programs; "": as the workload is named
    # Arrays that are neither operand nor result, whose sharding the program names.
    between: tuple[Array, ...] = ()
    # Dims that shard_map and types want unsharded: operands sharded over them are gathered.
    gathered: tuple[str, ...] = ()
    constants: Mapping[str, float] = field(default_factory=dict)  # that it names in capitals
    # (operand, function of the file, operands that it takes): instead of the draw.
    derived: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    # (operands, arrays): everything computed from these operands passes through each of the arrays,
    # the smallest on the path; operands not named here have no known bottleneck.
    passes: tuple[tuple[tuple[str, ...], tuple[Array, ...]], ...] = ()
    # (dim, width): a shard needs width // 2 elements of its neighbors along dim.
    halo: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Training:
    """What a training run feeds back step by step, (result, operand), and the number it draws."""

    carried: tuple[tuple[str, str], ...] = ()
    curve: str | None = None


Kind = Literal["computation", "array", "transfer", "program", "plan", "serving", "machine", "sweep"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A computation as data.

    `flops` counts one execution over all devices, a multiply-add as two.
    """

    name: str
    title: str
    formula: str
    kind: Kind = "computation"
    dims: tuple[str, ...]
    defaults: Dims
    operands: tuple[Array, ...]
    results: tuple[Array, ...]
    flops: Callable[[Dims], int] = field(repr=False)
    optional_dims: tuple[str, ...] = ()
    size_rules: tuple[AtMost | Divides, ...] = ()
    dtypes: tuple[str, ...] = (*FLOATS, "int32")  # the first is the default
    strategies: tuple[str, ...] = SHARDING_STRATEGIES
    default_strategies: tuple[str, ...] = ("single", "auto", "constrained", "shard_map")
    contracted: tuple[str, ...] = ()  # the dims that are summed over
    integer_result: bool = False  # int32 operands give an int32 result
    uses_precision: bool = False
    draws: tuple[str, ...] = DRAWS  # what its operands may be filled with
    # The reference of a large result is computed on some indices of the first of these dims that is
    # present; (): on all.
    sampled: tuple[str, ...] = ()
    sharded_dim: str = ""  # the dim that a screen shards at first; "": the first one
    mapped: str | None = None  # the dim that vmap and pmap map over; None: the first result's first
    memory: Mapping[str, MemoryKind] = field(default_factory=dict)  # kinds other than `device`
    # Of a training step whose program follows from a plan: fields of an experiment -> the plan;
    # RequestError where they describe none.
    read_plan: Callable[[Mapping[str, Any]], Plan] | None = field(default=None, repr=False)
    # the same of a step of serving
    read_served: Callable[[Mapping[str, Any]], Any] | None = field(default=None, repr=False)
    named_axes: tuple[str, ...] = ()  # names of mesh axes, from which its sharding follows
    per_device: tuple[str, ...] = ()  # dims that grow with the mesh; a study's variants may differ
    same_options: tuple[str, ...] = ()  # options that a study's variants have in common
    unit: Literal["call", "step"] = "call"  # what one execution is called
    batch_unit: str = "rows of the batch"
    stages: tuple[str, ...] = ("trace", "lower", "compile", "price")  # of its prediction
    program: Program = Program()
    training: Training = Training()
    # Fields of an experiment -> their canonical form; RequestError if they are invalid.
    canonical: Callable[[Mapping[str, Any]], dict[str, object]] | None = field(
        default=None, repr=False
    )
    options: Mapping[str, Field] = field(default_factory=dict)
    variants: Mapping[str, Workload] = field(default_factory=dict, repr=False)  # by first option
    source: str | None = None  # hash of the file that declares it, where it is the user's own
    artifact: str | None = None  # hash of the file of jax.export that it is

    def array(self, name: str) -> Array:
        """The operand or result of that name."""
        return next(array for array in self.arrays if array.name == name)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Operands, then results."""
        return self.operands + self.results

    @property
    def is_bare_array(self) -> bool:
        """Whether it is an array that is only placed; naming its dims sets its rank."""
        return self.kind == "array"

    @property
    def is_small_program(self) -> bool:
        """Whether it is a registered program, which runs unmodified and is not timed."""
        return self.kind == "program"

    @property
    def is_of_machine(self) -> bool:
        """Whether it measures the machine itself: many small programs, no strategies."""
        return self.kind in ("machine", "sweep")

    @property
    def has_formula(self) -> bool:
        """Whether the cost model gives its times without compiling anything."""
        return self.kind == "sweep"

    @property
    def moves(self) -> bool:
        """Whether it only moves data, and is measured in bytes per second."""
        return self.kind == "transfer"

    @property
    def is_comparable(self) -> bool:
        """Whether there is anything by which variants can be compared: results, or a step's time."""
        return bool(self.results) or self.compile_only

    @property
    def compile_only(self) -> bool:
        """Whether none of it runs: it needs a compile-only topology."""
        return self.kind in ("plan", "serving")

    @property
    def is_predicted(self) -> bool:
        """Whether it compiles to one program, so that its step time can be predicted."""
        return self.kind in ("computation", "plan")

    @property
    def is_traceable(self) -> bool:
        """Whether its calls are timed on devices, and so can be traced there."""
        return self.kind in ("computation", "transfer")

    def chosen(self, options: Mapping[str, Any]) -> Workload:
        """This workload as these options make it: they may change its arrays, dims and sums."""
        return self.variants.get(options.get(next(iter(self.options), ""), ""), self)

    def mapped_dim(self, sizes: Dims) -> str:
        """The dim that vmap and pmap map over by default: the first of the result, else of the
        operands.
        """
        if self.mapped is not None and self.mapped in sizes:
            return self.mapped
        return next(
            dim for array in (*self.results[:1], *self.operands) for dim in array.present(sizes)
        )

    def default_size(self, dim: str, sizes: Dims) -> int:
        """The size of a dim that is not given, beside others that are."""
        for rule in self.size_rules:
            if isinstance(rule, Divides) and rule.dim == dim and rule.other in sizes:
                return sizes[rule.other]
        return self.defaults[dim]

    def amended(self, sizes: Dims) -> Iterator[tuple[str, int, str, str]]:
        """Dims whose size is inconsistent with another's: the nearest valid size, the rule, the
        fix.
        """
        for rule in self.size_rules:
            if rule.dim not in sizes or rule.other not in sizes:
                continue
            size, most, other = (
                sizes[rule.dim],
                sizes[rule.other],
                f"{rule.other}={sizes[rule.other]}",
            )
            if isinstance(rule, AtMost) and size > most:
                yield rule.dim, most, f"is more than {other}", f"use at most {most}"
            if isinstance(rule, Divides) and most % size:
                fits = math.gcd(size, most)
                fix = f"use {fits}, {most} or another number that divides it"
                yield rule.dim, fits, f"does not divide {other}", fix

    def result_dtype(self, dtype: str) -> str:
        """Dtype of the results: int32 operands of a float function are promoted to float32, as JAX
        does.
        """
        return "float32" if dtype == "int32" and not self.integer_result else dtype

    def operand_bytes(self, sizes: Dims, dtype: str) -> int:
        """Bytes of all operands, unsharded."""
        return sum(array_bytes(array, sizes, dtype) for array in self.operands)

    def result_bytes(self, sizes: Dims, dtype: str) -> int:
        """Bytes of all results, unsharded."""
        dtype = self.result_dtype(dtype)
        return sum(array_bytes(array, sizes, dtype) for array in self.results)


def array_bytes(array: Array, sizes: Dims, dtype: str) -> int:
    """Bytes of an array, unsharded; `dtype` is the experiment's."""
    return math.prod(array.shape(sizes)) * item_bytes(array.dtype or dtype)


def item_bytes(dtype: str) -> int:
    """Bytes of an element, by the bits that its name has: 8 of float8_e4m3fn, 32 of float32. What
    is smaller than a byte takes one; a PRNG key takes 8.

    >>> item_bytes("bfloat16"), item_bytes("bool"), item_bytes("complex64")
    (2, 1, 8)
    """
    if dtype.startswith("key"):
        return 8
    bits = re.search(r"\d+", dtype)
    return max(int(bits[0]) // 8, 1) if bits else 1

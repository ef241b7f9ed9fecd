"""Workloads as data: operands and results with named dims, FLOPs and bytes."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from spmd_core.errors import refuse, shorten
from spmd_core.strategies import SHARDING_STRATEGIES

DTYPE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "int32": 4}
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
    dtypes: tuple[str, ...] = tuple(DTYPE_BYTES)
    strategies: tuple[str, ...] = SHARDING_STRATEGIES
    default_strategies: tuple[str, ...] = ("single", "auto", "constrained", "shard_map")
    contracted: str | None = None  # the dim that is summed over
    integer_result: bool = False  # int32 operands give an int32 result
    uses_precision: bool = False

    def array(self, name: str) -> Array:
        """The operand or result of that name."""
        return next(array for array in self.arrays if array.name == name)

    @property
    def arrays(self) -> tuple[Array, ...]:
        """Operands, then results."""
        return self.operands + self.results

    def result_dtype(self, dtype: str) -> str:
        """Dtype of the results: int32 operands of a float function are promoted to float32, as JAX does."""
        return "float32" if dtype == "int32" and not self.integer_result else dtype

    def operand_bytes(self, sizes: Dims, dtype: str) -> int:
        """Bytes of all operands, unsharded."""
        return sum(element_count(array.shape(sizes)) for array in self.operands) * DTYPE_BYTES[dtype]

    def result_bytes(self, sizes: Dims, dtype: str) -> int:
        """Bytes of all results, unsharded."""
        return sum(element_count(array.shape(sizes)) for array in self.results) * DTYPE_BYTES[self.result_dtype(dtype)]


def element_count(shape: tuple[int, ...]) -> int:
    """Product of the sizes; exact, since Python integers do not overflow."""
    total = 1
    for size in shape:
        total *= size
    return total


def _layer_flops(sizes: Dims) -> int:
    rows = sizes.get("batch", 1)
    return 2 * rows * sizes["in"] * sizes["out"] + 5 * rows * sizes["out"]  # bias, and negate, exp, add, divide


ARRAY_DIMS = ("d0", "d1", "d2", "d3", "d4", "d5")

WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload(
            "array", "Array", "array", ARRAY_DIMS, {"d0": 4, "d1": 8}, (Array("array", ARRAY_DIMS),), (), lambda sizes: 0,
            optional_dims=ARRAY_DIMS[1:], strategies=("place",), default_strategies=("place",)),
        Workload(
            "elementwise", "Elementwise", "y = 2 sin(x) + 1", ("rows", "cols"), {"rows": 4096, "cols": 1024},
            (Array("x", ("rows", "cols")),), (Array("y", ("rows", "cols")),),
            lambda sizes: 3 * sizes["rows"] * sizes.get("cols", 1), optional_dims=("cols",)),
        Workload(
            "contraction", "Contraction", "y = sum of x over rows", ("rows", "cols"), {"rows": 4096, "cols": 1024},
            (Array("x", ("rows", "cols")),), (Array("y", ("cols",)),),
            lambda sizes: (sizes["rows"] - 1) * sizes.get("cols", 1), optional_dims=("cols",), contracted="rows", integer_result=True),
        Workload(
            "layer", "Dense layer", "y = sigmoid(x @ weights + bias)", ("batch", "in", "out"), {"in": 32, "out": 4},
            (Array("x", ("batch", "in")), Array("weights", ("in", "out")), Array("bias", ("out",))), (Array("y", ("batch", "out")),),
            _layer_flops, optional_dims=("batch",), dtypes=FLOATS, contracted="in", uses_precision=True),
        Workload(
            "program", "Small program", "a registered program", (), {}, (), (), lambda sizes: 0,
            strategies=("as_written",), default_strategies=("as_written",)),
    )
}


def get_workload(name: str) -> Workload:
    """The workload of that name; RequestError where there is none."""
    if name not in WORKLOADS:
        raise refuse(f"workload {shorten(name)}", "does not exist", f"use one of {', '.join(WORKLOADS)}")
    return WORKLOADS[name]

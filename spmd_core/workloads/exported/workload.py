"""A program that somebody exported, as a workload: its arguments are operands of their own sizes."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from spmd_core.fields import Axes, Spec, padded
from spmd_core.workloads.exported.description import NAME, SYMBOL_SIZE, Described, Leaf
from spmd_core.workloads.exported.held import Program
from spmd_core.workloads.exported.sizes import size_of
from spmd_core.workloads.workload import FLOATS, Array, Dims, Workload

STRATEGY = "auto"


@dataclass(frozen=True, slots=True)
class LeafArray(Array):
    """An argument or output: `sizes` are numbers, or expressions of the program's symbols."""

    sizes: tuple[str, ...] = ()
    exported: Spec = ()

    def shape(self, sizes: Dims) -> tuple[int, ...]:
        """Its sizes, those of the symbols filled in."""
        return tuple(size_of(size, sizes) for size in self.sizes)

    def present(self, sizes: Dims) -> tuple[str, ...]:
        """Names of its dims: all of them."""
        return self.dims

    def spec(self, sizes: Dims, table: Mapping[str, Axes]) -> Spec:
        """The spec that its file gives it."""
        return self.exported


def workload_of(described: Described) -> Workload:
    """The workload that a program is. Its operands are the arguments that it uses, in order."""
    operands = tuple(_array(leaf) for leaf in described.arguments if leaf.is_kept)
    floats = [array.dtype for array in operands if array.dtype in FLOATS]
    return Workload(
        name=NAME,
        title="Exported program",
        formula=f"{described.function} of {described.name}",
        dims=described.symbols,
        defaults=dict.fromkeys(described.symbols, SYMBOL_SIZE),
        operands=operands,
        results=tuple(_array(leaf) for leaf in described.outputs),
        flops=lambda sizes: described.flops_of(sizes) or 0,
        dtypes=(max(FLOATS, key=floats.count),),
        memory={
            leaf.path: "pinned_host"
            for leaf in (*described.arguments, *described.outputs)
            if leaf.memory == "pinned_host"
        },
        strategies=(STRATEGY,),
        default_strategies=(STRATEGY,),
        artifact=described.program,
        unit="step",
    )


def _array(leaf: Leaf) -> LeafArray:
    rank = len(leaf.sizes)
    dims = tuple(f"d{dim}" for dim in range(rank))
    return LeafArray(leaf.path, dims, (), leaf.dtype, leaf.sizes, padded(leaf.known or (), rank))


@dataclass(frozen=True)
class ProgramLayout:
    """A program that no data folder holds, where reasons of collectives are read off an experiment."""

    exported: Program
    workload: str = NAME

    @cached_property
    def what(self) -> Workload:
        """Its workload."""
        return workload_of(self.exported.described)

    @property
    def sizes(self) -> Mapping[str, int]:
        """The size of each symbol."""
        return self.exported.sizes

    def spec(self, array: str) -> Spec:
        """The spec of an argument or output."""
        return self._specs[array]

    @cached_property
    def _specs(self) -> Mapping[str, Spec]:
        return self.exported.array_specs()

    def axes_of_dim(self, dim: str) -> Axes:
        """None: dims of a program have no names that several arrays share."""
        return ()

"""What an exported program gives on one CPU device, where no array is sharded, and
how far rounding may move each element: what its results on any mesh are judged by.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir

from spmd_core.base import refuse
from spmd_core.engine.devices import check_room
from spmd_core.engine.exported.allowed import operations
from spmd_core.engine.exported.flops import flops_of
from spmd_core.engine.exported.lower import lowered_with, meshed
from spmd_core.engine.exported.noisy import Levels, add_noise
from spmd_core.reference import (
    EPS,
    Arithmetic,
    Bounded,
    Reference,
    Sequential,
    bound,
    resolved,
    sequential,
)
from spmd_core.workloads import Program

RUNS = 8  # with noise
# of all that sums of any order may lose or gain, beyond what one device does: a scatter on CPUs adds
# one term after the other, and split over devices it has fewer, so that it loses less
LOST_ON_CPU = 0.1
MOST_FLOPS = 5 * 10**9  # of one call: what a core does in about a second
MOST_ELEMENTS = 2**25  # of arguments and outputs: float64 values and bounds of these fill 1 GB
_DRAWING = frozenset(("stablehlo.rng", "stablehlo.rng_bit_generator"))


def program_references(
    program: Program, operands: Mapping[str, np.ndarray], platform: str, seed: int
) -> dict[str, Reference]:
    """Every output by path, with what rounding allows on a platform: of the program whose sums are
    of float64. RequestError where the program cannot be run on one device, or would draw or take
    other numbers there.
    """
    single = Program(
        program.described, tuple((axis, 1) for axis, _ in program.mesh), (), program.dims
    )
    _check(program)
    plain = _called(single, operands)
    with mlir.make_ir_context():
        noisy = meshed(single, "cpu", inlined=True)
        _check_module(noisy)
        coarse = 0.0 if platform == "cpu" else EPS["bfloat16"]
        # one device adds up windows in a tree, several term by term
        windows = any(op.name == "stablehlo.reduce_window" for op in operations(noisy.operation))
        most = LOST_ON_CPU if platform == "cpu" and not windows else 1.0
        with noisy.context:
            dtype = add_noise(noisy, math.prod(size for _, size in program.mesh), coarse)
        levels = (np.uint32(0), *np.zeros(4, np.float32))
        call = _compiled(single, operands, noisy, levels, [((), jnp.float32)])
    runs = _Runs(call, tuple(operands.values()), seed)
    exact, moved = runs.run(Levels()), runs.moved(Levels(noise=1))
    ends = cache(lambda: _ends(runs, plain, most))
    return {
        leaf.path: _reference(
            leaf.dtype,
            exact[at],
            [each[at] for each in moved],
            _sums(leaf.dtype, at, dtype, ends) if dtype else None,
        )
        for at, leaf in enumerate(program.described.outputs)
    }


@dataclass(frozen=True)
class _Runs:
    """Calls of a program with noise; the last output is how many terms its longest sum has."""

    call: Callable[..., list[np.ndarray]]
    operands: tuple[np.ndarray, ...]
    seed: int

    def run(self, levels: Levels, seed: int = 0) -> list[np.ndarray]:
        """Its outputs with the noise of one seed."""
        return self.call(*self.operands, np.uint32(seed), *map(np.float32, levels))

    def moved(self, levels: Levels) -> list[list[np.ndarray]]:
        """Its outputs with the noise of some seeds."""
        rng = np.random.default_rng(self.seed)
        return [self.run(levels, int(each)) for each in rng.integers(1, 2**32, RUNS)]


Ends = tuple[list[tuple[list[np.ndarray], list[list[np.ndarray]]]], int]


def _ends(runs: _Runs, plain: list[np.ndarray], most: float) -> Ends:
    """Outputs, each with runs around them, of sums in their own dtype: as they are, where they lose
    or gain `most` of all they can, and as one device gives them, with the noise of the first; and
    how many terms the longest has."""
    alike = Levels(), Levels(loss=most), Levels(gain=most)
    around = [level._replace(noise=1, walk=1) for level in alike]
    ends = [(runs.run(at), runs.moved(by)) for at, by in zip(alike, around, strict=True)]
    return [*ends, (plain, _shifted(plain, *ends[0]))], int(ends[0][0][-1])


def _shifted(
    outputs: list[np.ndarray], others: list[np.ndarray], around: list[list[np.ndarray]]
) -> list[list[np.ndarray]]:
    """Runs around `outputs` that are as far off as those around the others."""
    with np.errstate(all="ignore"):
        return [
            [
                value.astype(np.float64) + (moved.astype(np.float64) - other.astype(np.float64))
                for value, other, moved in zip(outputs, others, run, strict=False)
            ]
            for run in around
        ]


def _sums(dtype: str, at: int, kept_in: str, ends: Callable[[], Ends]) -> Callable[[], Sequential]:
    """How far an output may be off by sums that are kept in a dtype, computed when it is needed."""

    def ranges() -> Sequential:
        each, terms = ends()
        bounded = [_moved(output[at], [run[at] for run in around]) for output, around in each]
        return sequential(bounded, _arithmetic(dtype), kept_in, terms)

    return cache(ranges)


def _check(program: Program) -> None:
    described = program.described
    if "cpu" not in described.platforms:
        raise refuse("the program", "was exported without the platform cpu", "add it, to compare")
    if unreal := [leaf.path for leaf in described.outputs if leaf.dtype.startswith("complex")]:
        raise refuse(unreal[0], "is complex", "return its real and imaginary parts, to compare")
    leaves = (*described.arguments, *described.outputs)
    if (count := sum(math.prod(program.shape(leaf)) for leaf in leaves)) > MOST_ELEMENTS:
        raise refuse(f"{count:,} elements", f"are more than {MOST_ELEMENTS:,}", "use smaller sizes")
    if fixed := [
        axis for axis, size in described.mesh if size > 1 and axis in described.manual_axes
    ]:
        raise refuse(
            f"the program's shard_map over {', '.join(fixed)}",
            "cannot be run on one device",
            "compare it yourself",
        )


def _check_module(module: Any) -> None:
    if any(op.name in _DRAWING for op in operations(module.operation)):
        raise refuse("the program", "draws numbers that depend on the mesh", "use a threefry key")
    if (flops := flops_of(module)) > MOST_FLOPS:
        raise refuse(f"{flops:.3g} FLOPs", f"are more than {MOST_FLOPS:.0e}", "use smaller sizes")


def _called(program: Program, operands: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    with mlir.make_ir_context():
        module = meshed(program, "cpu", inlined=True)
        _check_module(module)
        call = _compiled(program, operands, module)
    return call(*operands.values())


def _compiled(
    program: Program,
    operands: Mapping[str, np.ndarray],
    module: Any,
    more: tuple[Any, ...] = (),
    outputs: Sequence[tuple[tuple[int, ...], Any]] = (),
) -> Callable[..., list[np.ndarray]]:
    with jax.default_device(jax.local_devices(backend="cpu")[0]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        given = [*operands.values(), *more]
        compiled = lowered_with(program, module, given, outputs).compile()
    check_room(compiled, 1)

    def call(*arrays: Any) -> list[np.ndarray]:
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            return [np.asarray(each) for each in compiled(*arrays)]

    return call


def _reference(
    dtype: str,
    value: np.ndarray,
    moved: list[np.ndarray],
    added: Callable[[], Sequential] | None,
) -> Reference:
    """An output with its bounds. One that is no float is right where it is equal; where noise
    changes it, it is not judged.
    """
    bounded, how = _moved(value, moved), _arithmetic(dtype)
    spread = np.nan_to_num(np.sqrt(bounded.squared_spread), nan=np.inf)
    if how.eps:
        kept = resolved(Bounded(bounded.value, spread))
    else:
        kept, added = Bounded(bounded.value, np.where(spread == 0, 0.0, np.inf)), None
    lost = np.isinf(kept.squared_spread) & np.isfinite(kept.value)
    unresolved = int(np.count_nonzero(lost))
    return Reference(kept.value, bound(kept, how), how.dtype, unresolved=unresolved, added=added)


def _arithmetic(dtype: str) -> Arithmetic:
    floats = jnp.issubdtype(jnp.dtype(dtype), jnp.floating) and dtype in EPS
    return Arithmetic(dtype if floats else "int32")


def _moved(value: np.ndarray, moved: list[np.ndarray]) -> Bounded:
    """An output, spread by what noise moves it by; exact without noise."""
    exact = np.asarray(value).astype(np.float64)
    if not moved:
        return Bounded(exact)
    apart = np.zeros(exact.shape)
    with np.errstate(all="ignore"):
        for each in moved:
            apart += (np.asarray(each).astype(np.float64) - exact) ** 2
        return Bounded(exact, np.sqrt(apart / len(moved)))

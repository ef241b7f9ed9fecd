"""What an exported program gives on one CPU device, where no array is sharded, and
how far rounding may move each element: what its results on any mesh are judged by.
"""

import math
import warnings
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.interpreters import mlir

from spmd_core.base import refuse
from spmd_core.engine.exported.allowed import operations
from spmd_core.engine.exported.flops import flops_of
from spmd_core.engine.exported.lower import lowered_with, meshed
from spmd_core.engine.exported.noisy import add_noise
from spmd_core.experiment import Program
from spmd_core.results import EPS, Arithmetic, Bounded, Reference, bound, resolved

RUNS = 8  # with noise
MOST_FLOPS = 5 * 10**9  # of one call: what a core does in about a second
MOST_ELEMENTS = 2**25  # of arguments and outputs: float64 values and bounds of these fill 1 GB
_DRAWING = frozenset(("stablehlo.rng", "stablehlo.rng_bit_generator"))


def program_references(
    program: Program, operands: Mapping[str, np.ndarray], platform: str, seed: int
) -> dict[str, Reference]:
    """Every output by path, with what rounding allows on a platform. RequestError where the program
    cannot be run on one device, or would draw or take other numbers there.
    """
    single = Program(
        program.described, tuple((axis, 1) for axis, _ in program.mesh), (), program.dims
    )
    _check(program)
    values = _called(single, operands, ())
    with mlir.make_ir_context():
        noisy = meshed(single, "cpu", inlined=True)
        _check_module(noisy)
        coarse = 0.0 if platform == "cpu" else EPS["bfloat16"]
        with noisy.context:
            add_noise(noisy, math.prod(size for _, size in program.mesh), coarse)
        call = _compiled(single, operands, noisy, (np.uint32(0),))
    rng = np.random.default_rng(seed)
    moved = [call(*operands.values(), np.uint32(each)) for each in rng.integers(1, 2**32, RUNS)]
    return {
        leaf.path: _reference(leaf.dtype, values[at], [each[at] for each in moved])
        for at, leaf in enumerate(program.described.outputs)
    }


def _check(program: Program) -> None:
    described = program.described
    if "cpu" not in described.platforms:
        raise refuse("the program", "was exported without the platform cpu", "add it, to compare")
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


def _called(program: Program, operands: Mapping[str, np.ndarray], more: tuple[Any, ...]) -> Any:
    with mlir.make_ir_context():
        module = meshed(program, "cpu", inlined=True)
        _check_module(module)
        call = _compiled(program, operands, module, more)
    return call(*operands.values(), *more)


def _compiled(
    program: Program, operands: Mapping[str, np.ndarray], module: Any, more: tuple[Any, ...]
) -> Any:
    """The module compiled for one CPU device, as a function of arrays that returns NumPy arrays."""
    with jax.default_device(jax.local_devices(backend="cpu")[0]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = lowered_with(program, module, [*operands.values(), *more]).compile()

    def call(*arrays: Any) -> list[np.ndarray]:
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            return [np.asarray(each) for each in compiled(*arrays)]

    return call


def _reference(dtype: str, value: np.ndarray, moved: list[np.ndarray]) -> Reference:
    """An output with its bounds. One that is no float is right where it is equal; where noise
    changes it, it is not judged.
    """
    exact = np.asarray(value).astype(np.float64)
    apart = np.zeros(exact.shape)
    with np.errstate(all="ignore"):
        for each in moved:
            apart += (np.asarray(each).astype(np.float64) - exact) ** 2
        spread = np.sqrt(apart / len(moved))
    if jnp.issubdtype(jnp.dtype(dtype), jnp.floating) and dtype in EPS:
        how = Arithmetic(dtype)
        kept = resolved(Bounded(exact, np.nan_to_num(spread, nan=np.inf)))
    else:
        how = Arithmetic("int32")
        kept = Bounded(exact, np.where(spread == 0, 0.0, np.inf))
    lost = np.isinf(kept.squared_spread) & np.isfinite(exact)
    return Reference(exact, bound(kept, how), how.dtype, unresolved=int(np.count_nonzero(lost)))

"""What a program that somebody else wrote may contain. A custom call runs code of the process that
runs it: one that the library does not guarantee may end the process, or worse.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from jax._src.export import _export
from jaxlib.mlir import ir

from spmd_core.base import refuse, shorten
from spmd_core.engine.exported.calls import KNOWN, check_call
from spmd_core.fields import Mesh

# Its own list, and never what a file permits itself: `disabled_safety_checks` are ignored.
# A call into TensorFlow runs a graph that nobody has looked at.
TARGETS = frozenset(_export._CUSTOM_CALL_TARGETS_GUARANTEED_STABLE) - {"tf.call_tf_function"}
# Calls that hold code of one platform: compiled for absent devices, run only where that is allowed
KERNELS = frozenset(("tpu_custom_call", "mosaic_gpu_v2"))
TRITON = "__gpu$xla.gpu.triton"
DIALECTS = frozenset(("stablehlo", "chlo", "func", "sdy", "builtin", "mhlo", "shape"))
# Operations that reach out of the program
REFUSED = frozenset(("stablehlo.infeed", "stablehlo.outfeed", "stablehlo.send", "stablehlo.recv"))

MOST_PATH = 500  # characters
MOST_AXIS = 100  # the same, of a mesh axis
MOST_BYTES = 2**62  # of an array, over all devices
MOST_RANK = 32


def check_arrays(avals: Sequence[Any]) -> None:
    """RequestError for an array that no machine could hold: what follows computes with its sizes."""
    for aval in avals:
        if len(aval.shape) > MOST_RANK:
            raise refuse(
                f"an array of {len(aval.shape)} dims", f"has more than {MOST_RANK}", "reshape it"
            )
        numbers = [size for size in aval.shape if isinstance(size, int)]
        if math.prod(numbers) * max(1, aval.dtype.itemsize) > MOST_BYTES:
            raise refuse(
                f"an array of shape {shorten(aval.shape)}",
                "is larger than the memory of any machine",
                "export it with the sizes that you run",
            )


def check_paths(paths: Sequence[str]) -> None:
    """RequestError where the path of an argument or output is long: each screen writes it."""
    longest = max(paths, key=len, default="")
    if len(longest) > MOST_PATH:
        raise refuse(
            f"the path {shorten(longest)}",
            f"has {len(longest):,} characters, more than {MOST_PATH}",
            "use shorter keys",
        )


def check_axes(mesh: Mesh) -> None:
    """RequestError for a mesh that no screen could show."""
    longest = max((name for name, _ in mesh), key=len, default="")
    if len(longest) > MOST_AXIS or len(mesh) > MOST_RANK:
        raise refuse(
            f"a mesh of {len(mesh)} axes, such as {shorten(longest)},",
            f"has more than {MOST_RANK}, or a name of more than {MOST_AXIS} characters",
            "use fewer axes, or shorter names",
        )


def check_module(module: ir.Module, is_final: bool = False) -> tuple[str, ...]:
    """Returns the targets of its kernels. `is_final`: no size is dynamic, since this is compiled.

    Raises:
        RequestError: an operation, in any region, is not allowed, or no call that JAX writes.
    """
    kernels: dict[str, None] = {}
    for op in operations(module.operation):
        name = op.name
        if name.partition(".")[0] not in DIALECTS or name in REFUSED:
            raise refuse(
                f"operation {shorten(name)} of this program",
                "is none of StableHLO or Shardy that may be run here",
                "export it without callbacks, infeed and operations of other dialects",
            )
        if name.endswith(".custom_call"):
            target = _target(op)
            if target in KERNELS or target == TRITON:
                kernels[target] = None
            elif target not in TARGETS:
                callback = "callback" in target
                raise refuse(
                    f"custom call {shorten(target)} of this program",
                    "calls back into Python, which a file cannot carry"
                    if callback
                    else "is none that JAX guarantees",
                    "export it without callbacks, debug prints and checks"
                    if callback
                    else "write that part in jax.numpy or jax.lax",
                )
            check_call(op, target, is_final)
    return tuple(kernels)


def check_runs(module: ir.Module) -> None:
    """RequestError for a call that may not run: it has no signature, and is no kernel."""
    for op in operations(module.operation):
        if not op.name.endswith(".custom_call"):
            continue
        target = _target(op)
        if target not in KNOWN and target not in KERNELS and target != TRITON:
            raise refuse(
                f"custom call {shorten(target)} of this program",
                "is compiled, and not run: the sizes of its results are not checked",
                "use a topology such as tpu:v5e:4x4",
            )


def operations(op: ir.Operation, closed: Collection[str] = ()) -> Iterator[ir.Operation]:
    """Yields an operation and those of all its regions but of the `closed` ones, by name; without
    recursion, since a file chooses their depth.
    """
    waiting = [op]
    while waiting:
        at = waiting.pop()
        yield at
        for region in at.regions if at.name not in closed else ():
            for block in region.blocks:
                waiting += [each.operation for each in block.operations]


def _target(op: ir.Operation) -> str:
    return ir.StringAttr(op.attributes["call_target_name"]).value

"""Runs Shardy's passes: propagation, then an explicit collective wherever shardings disagree."""

from jaxlib.mlir import ir, passmanager

from spmd_core.base import refuse

# `canonicalize` makes a reduce-scatter of an all-reduce and a slice, `cse` one collective of equal
# ones: XLA does both.
_PASSES = (
    "builtin.module(sdy-import-pipeline,sdy-op-priority-propagate,sdy-close-shardings,"
    "func.func(sdy-sink-data-flow-edges,sdy-insert-explicit-reshards{enable-full-version=true},"
    "sdy-reshard-to-collectives,canonicalize,cse))"
)


def propagate(module: ir.Module) -> None:
    """Propagates the shardings of a module in place, and makes its collectives explicit.

    Raises:
      RequestError: this jaxlib has not these passes, or they refuse the program.
    """
    try:
        passmanager.PassManager.parse(_PASSES).run(module.operation)
    except (ValueError, ir.MLIRError) as error:
        why = " ".join(str(error).split())[:200]
        raise refuse("propagation without a compile", f"fails ({why})", "compile it") from error

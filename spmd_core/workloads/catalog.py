"""The workloads by name: what the engine can run, described as values."""

from spmd_core.base import refuse, shorten
from spmd_core.workloads.arrays import ARRAY_DIMS
from spmd_core.workloads.exported import programs
from spmd_core.workloads.exported.description import NAME as PROGRAM
from spmd_core.workloads.exported.workload import workload_of
from spmd_core.workloads.own import files
from spmd_core.workloads.table import WORKLOADS
from spmd_core.workloads.workload import DTYPE_BYTES, FLOATS, Array, Dims, Workload

__all__ = [
    "ARRAY_DIMS",
    "DTYPE_BYTES",
    "FLOATS",
    "WORKLOADS",
    "Array",
    "Dims",
    "Workload",
    "built_in",
    "get_workload",
    "named_axes",
    "workload_names",
]

SHORT_WAIT_S = 5.0  # a screen continues without a file that takes longer to load


def workload_names(wait_s: float | None = SHORT_WAIT_S) -> tuple[str, ...]:
    """Names of all workloads, the user's own last; `wait_s` bounds the wait for files that are
    still being loaded.
    """
    return (*WORKLOADS, *files.workloads(wait_s))


def built_in(name: object) -> Workload | None:
    """The built-in workload of that name; None where it is none: a link may hold anything."""
    return WORKLOADS.get(name) if isinstance(name, str) else None


def named_axes(name: object) -> tuple[str, ...]:
    """The names that the mesh axes of a workload may have, from which its sharding follows; ()
    where they may have any.
    """
    return what.named_axes if (what := built_in(name)) else ()


def get_workload(name: str, source: str | None = None, program: str = "") -> Workload:
    """The workload of that name; RequestError where there is none. `source` is the hash of the
    user's file that declared it, `program` that of a file of jax.export.
    """
    if name == PROGRAM:
        if not program:
            raise refuse(f"workload {name}", "names no program", "add program, the file's sha256")
        return workload_of(programs.find(program))
    if program:
        raise refuse(
            f"program of workload {name}", "is not read", f"leave it out, or use {PROGRAM}"
        )
    if name in WORKLOADS:
        return WORKLOADS[name]
    if (workload := files.find(name, source)) is not None:
        return workload
    raise refuse(
        f"workload {shorten(name)}",
        f"does not exist{files.why_missing(name, source)}",
        f"use one of {', '.join(workload_names())}",
    )

"""The workloads: tables of what is computed, under which strategies; exported programs and own files."""

from spmd_core.workloads.catalog import built_in, get_workload, named_axes, workload_names
from spmd_core.workloads.exported import programs, sources
from spmd_core.workloads.exported.description import (
    NAME as PROGRAM_FILE,
    Described,
    Leaf,
    Listed,
    with_replaced,
)
from spmd_core.workloads.exported.held import (
    VALUE,
    Finding,
    Held,
    Kind as FindingKind,
    Program,
    device_bytes,
    findings,
    grouped,
    moving,
    weights_over,
)
from spmd_core.workloads.exported.patterns import as_regex, matches, patterns
from spmd_core.workloads.exported.state import Continued
from spmd_core.workloads.exported.workload import ProgramLayout
from spmd_core.workloads.machine import (
    ALL,
    CALIBRATION,
    COLLECTIVES,
    COLLECTIVES_SWEEP,
    LEAST_BYTES,
    MOST_BYTES,
    TRANSFERS,
    chosen_axes,
    chosen_kinds,
    ladder,
)
from spmd_core.workloads.own import files
from spmd_core.workloads.own.declare import DeclaredStep, declared_steps, take_declared, workload
from spmd_core.workloads.own.files import check_present, newer, version_words
from spmd_core.workloads.serving import (
    DECODER,
    DEFAULT_SPEC,
    STEP,
    ServedStep,
    fields_of_plan,
    fields_of_step,
    parse_mesh,
    parse_plan,
)
from spmd_core.workloads.small_programs import program_names, program_sizes, with_sizes
from spmd_core.workloads.strategies import SEQUENCE_STRATEGIES, STRATEGIES
from spmd_core.workloads.table import WORKLOADS
from spmd_core.workloads.workload import (
    DTYPE_BYTES,
    FLOATS,
    Array,
    Dims,
    Divides,
    Workload,
    array_bytes,
    item_bytes,
)

__all__ = [
    "ALL",
    "CALIBRATION",
    "COLLECTIVES",
    "COLLECTIVES_SWEEP",
    "DECODER",
    "DEFAULT_SPEC",
    "DTYPE_BYTES",
    "FLOATS",
    "LEAST_BYTES",
    "MOST_BYTES",
    "PROGRAM_FILE",
    "SEQUENCE_STRATEGIES",
    "STEP",
    "STRATEGIES",
    "TRANSFERS",
    "VALUE",
    "WORKLOADS",
    "Array",
    "Continued",
    "DeclaredStep",
    "Described",
    "Dims",
    "Divides",
    "Finding",
    "FindingKind",
    "Held",
    "Leaf",
    "Listed",
    "Program",
    "ProgramLayout",
    "ServedStep",
    "Workload",
    "array_bytes",
    "as_regex",
    "built_in",
    "check_present",
    "chosen_axes",
    "chosen_kinds",
    "declared_steps",
    "device_bytes",
    "fields_of_plan",
    "fields_of_step",
    "files",
    "findings",
    "get_workload",
    "grouped",
    "item_bytes",
    "ladder",
    "matches",
    "moving",
    "named_axes",
    "newer",
    "parse_mesh",
    "parse_plan",
    "patterns",
    "program_names",
    "program_sizes",
    "programs",
    "sources",
    "take_declared",
    "version_words",
    "weights_over",
    "with_replaced",
    "with_sizes",
    "workload",
    "workload_names",
]

"""What a compiled program does: its text, its operations, what it communicates, and why."""

from spmd_core.program.communication.collectives import read_collectives
from spmd_core.program.communication.generic import generic, merged_names
from spmd_core.program.communication.parsed import counterparts
from spmd_core.program.communication.reasons import Reasons
from spmd_core.program.communication.rows import (
    CollectiveRow,
    is_ring,
    kind_words,
    rows,
    without_layers,
)
from spmd_core.program.communication.specs import is_covered, with_specs, with_warnings
from spmd_core.program.hlo.collective_ops import (
    BETWEEN_SLICES,
    Site,
    StartOp,
    groups_of,
    is_done,
    kind_of,
    rendezvous,
    sites,
    start_of,
    transfer_of,
)
from spmd_core.program.hlo.lines import fingerprint, source_frame
from spmd_core.program.hlo.module import (
    HBM,
    HOST_MEMORY_SPACE,
    Computation,
    HloError,
    Instruction,
    Module,
    Shape,
)
from spmd_core.program.hlo.replica_groups import axes_of, parse_pairs
from spmd_core.program.hlo.sharding_attributes import Mesh
from spmd_core.program.hlo.text import parse_module
from spmd_core.program.hlo.trip_counts import trip_count
from spmd_core.program.ir.accidents import judged
from spmd_core.program.ir.diff import MOST_LINES, DiffRow, TextDifference, compare, short
from spmd_core.program.ir.reading import read_text, spans_of
from spmd_core.program.ir.shardings import NAME, assigned, steps_of
from spmd_core.program.ir.text import (
    Op,
    ProgramText,
    Section,
    file_name,
    is_file,
    made_from,
    program_lines,
)
from spmd_core.program.origins.blame import Origins, ProgramNames, Record
from spmd_core.program.origins.of_collectives import with_origins, without_record

__all__ = [
    "BETWEEN_SLICES",
    "HBM",
    "HOST_MEMORY_SPACE",
    "MOST_LINES",
    "NAME",
    "CollectiveRow",
    "Computation",
    "DiffRow",
    "HloError",
    "Instruction",
    "Mesh",
    "Module",
    "Op",
    "Origins",
    "ProgramNames",
    "ProgramText",
    "Reasons",
    "Record",
    "Section",
    "Shape",
    "Site",
    "StartOp",
    "TextDifference",
    "assigned",
    "axes_of",
    "compare",
    "counterparts",
    "file_name",
    "fingerprint",
    "generic",
    "groups_of",
    "is_covered",
    "is_done",
    "is_file",
    "is_ring",
    "judged",
    "kind_of",
    "kind_words",
    "made_from",
    "merged_names",
    "parse_module",
    "parse_pairs",
    "program_lines",
    "read_collectives",
    "read_text",
    "rendezvous",
    "rows",
    "short",
    "sites",
    "source_frame",
    "spans_of",
    "start_of",
    "steps_of",
    "transfer_of",
    "trip_count",
    "with_origins",
    "with_specs",
    "with_warnings",
    "without_layers",
    "without_record",
]

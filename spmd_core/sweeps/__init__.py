"""Sweeps: one question over a range of a variable, its points and its curves."""

from spmd_core.sweeps.best_mesh import BEST, best_mesh
from spmd_core.sweeps.context_kinds import CONTEXT_KINDS, ContextRow, context_rows, fastest_kinds
from spmd_core.sweeps.curves import (
    EFFICIENCIES,
    PUBLISHED_SPAN,
    STRAGGLERS,
    Outcome,
    SweepRow,
    csv_text,
    curves,
    numbers_of,
    row_json,
)
from spmd_core.sweeps.first_look import first_look
from spmd_core.sweeps.least_memory import least_memory
from spmd_core.sweeps.none_fits import NoneFits, none_fits
from spmd_core.sweeps.runs import (
    Asked,
    cancel,
    estimated,
    look,
    missing_compilers,
    seconds_taken,
    start,
    to_compile,
)
from spmd_core.sweeps.serving import (
    SERVED_SWEPT,
    ServedPoint,
    decode_points,
    served_points,
    with_steps,
)
from spmd_core.sweeps.sizes import POINTS, SizePoint, at_sizes, begins, point_of, read_count
from spmd_core.sweeps.sweep import (
    Meshes,
    Sweep,
    SweepPoint,
    compile_seconds,
    members,
    parse_sweep,
    variants,
)
from spmd_core.sweeps.training import (
    KINDS,
    MAY_MISS,
    NO_PRICE,
    TOKENS_OF_A_STEP,
    TrainingAnswer,
    TrainingQuestion,
    TrainingRow,
    deadline_verdict,
    measure,
)
from spmd_core.sweeps.training_cost import TrainingCost, least_chip_days, run_of, training_run
from spmd_core.sweeps.training_search import MOST_CHIPS, train
from spmd_core.sweeps.variables import FIRST, VARIABLES, Scaling, Variable
from spmd_core.sweeps.ways_out import WayOut, ways_out

__all__ = [
    "BEST",
    "CONTEXT_KINDS",
    "EFFICIENCIES",
    "FIRST",
    "KINDS",
    "MAY_MISS",
    "MOST_CHIPS",
    "NO_PRICE",
    "POINTS",
    "PUBLISHED_SPAN",
    "SERVED_SWEPT",
    "STRAGGLERS",
    "TOKENS_OF_A_STEP",
    "VARIABLES",
    "Asked",
    "ContextRow",
    "Meshes",
    "NoneFits",
    "Outcome",
    "Scaling",
    "ServedPoint",
    "SizePoint",
    "Sweep",
    "SweepPoint",
    "SweepRow",
    "TrainingAnswer",
    "TrainingCost",
    "TrainingQuestion",
    "TrainingRow",
    "Variable",
    "WayOut",
    "at_sizes",
    "begins",
    "best_mesh",
    "cancel",
    "compile_seconds",
    "context_rows",
    "csv_text",
    "curves",
    "deadline_verdict",
    "decode_points",
    "estimated",
    "fastest_kinds",
    "first_look",
    "least_chip_days",
    "least_memory",
    "look",
    "measure",
    "members",
    "missing_compilers",
    "none_fits",
    "numbers_of",
    "parse_sweep",
    "point_of",
    "read_count",
    "row_json",
    "run_of",
    "seconds_taken",
    "served_points",
    "start",
    "to_compile",
    "train",
    "training_run",
    "variants",
    "ways_out",
    "with_steps",
]

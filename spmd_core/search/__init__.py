"""Which sharding is best: the space, what is ruled out and why, and its order."""

from spmd_core.search import axis_rules, link, models
from spmd_core.search.answer import TOP, Answer
from spmd_core.search.array_question import ArrayQuestion, read_array_question, unknown_target
from spmd_core.search.array_search import Space
from spmd_core.search.candidate import MOST, Candidate, Reason, Rule, Stage, over_limit, too_large
from spmd_core.search.chips import generations, read_chips
from spmd_core.search.kept import KeptCandidate, KeptSearch, read_kept
from spmd_core.search.link import AnyQuestion
from spmd_core.search.neighborhood import best_neighbors
from spmd_core.search.proof import Proof
from spmd_core.search.question import (
    GOALS,
    MOST_GIB,
    REMATS,
    Goal,
    ModelQuestion,
    Question,
    bytes_of,
    check_prices,
    price_example,
    read_prices,
    read_question,
)
from spmd_core.search.ranking import SAME, Ranked, price_per_billion, score
from spmd_core.search.serving import (
    CompiledDecode,
    ServingAnswer,
    ServingRow,
    serve,
    step_load,
    with_compiled,
)
from spmd_core.search.serving_apart import Split, splits
from spmd_core.search.serving_question import SERVING_FORM, ServingQuestion, read_serving
from spmd_core.search.spaces.array_space import meshes
from spmd_core.search.spaces.program_space import ProgramSpace, rules_text
from spmd_core.search.standards import NOT_TRIED, StandardSharding
from spmd_core.search.sweep.best_mesh import BEST, best_mesh
from spmd_core.search.sweep.curves import Outcome, SweepRow, csv_text, curves, row_json
from spmd_core.search.sweep.first_look import first_look
from spmd_core.search.sweep.runs import (
    Asked,
    cancel,
    estimated,
    look,
    seconds_taken,
    start,
    to_compile,
)
from spmd_core.search.sweep.sizes import SizePoint, at_sizes, begins, point_of, read_count
from spmd_core.search.sweep.sweep import (
    Meshes,
    Sweep,
    SweepPoint,
    compile_seconds,
    members,
    parse_sweep,
    variants,
)
from spmd_core.search.sweep.training import (
    KINDS,
    MOST_CHIPS,
    TOKENS_OF_A_STEP,
    TrainingAnswer,
    TrainingQuestion,
    TrainingRow,
    train,
)
from spmd_core.search.sweep.variables import FIRST, VARIABLES, Scaling, Variable

__all__ = [
    "BEST",
    "FIRST",
    "GOALS",
    "KINDS",
    "MOST",
    "MOST_CHIPS",
    "MOST_GIB",
    "NOT_TRIED",
    "REMATS",
    "SAME",
    "SERVING_FORM",
    "TOKENS_OF_A_STEP",
    "TOP",
    "VARIABLES",
    "Answer",
    "AnyQuestion",
    "ArrayQuestion",
    "Asked",
    "Candidate",
    "CompiledDecode",
    "Goal",
    "KeptCandidate",
    "KeptSearch",
    "Meshes",
    "ModelQuestion",
    "Outcome",
    "ProgramSpace",
    "Proof",
    "Question",
    "Ranked",
    "Reason",
    "Rule",
    "Scaling",
    "ServingAnswer",
    "ServingQuestion",
    "ServingRow",
    "SizePoint",
    "Space",
    "Split",
    "Stage",
    "StandardSharding",
    "Sweep",
    "SweepPoint",
    "SweepRow",
    "TrainingAnswer",
    "TrainingQuestion",
    "TrainingRow",
    "Variable",
    "at_sizes",
    "axis_rules",
    "begins",
    "best_mesh",
    "best_neighbors",
    "bytes_of",
    "cancel",
    "check_prices",
    "compile_seconds",
    "csv_text",
    "curves",
    "estimated",
    "first_look",
    "generations",
    "link",
    "look",
    "members",
    "meshes",
    "models",
    "over_limit",
    "parse_sweep",
    "point_of",
    "price_example",
    "price_per_billion",
    "read_array_question",
    "read_chips",
    "read_count",
    "read_kept",
    "read_prices",
    "read_question",
    "read_serving",
    "row_json",
    "rules_text",
    "score",
    "seconds_taken",
    "serve",
    "splits",
    "start",
    "step_load",
    "to_compile",
    "too_large",
    "train",
    "unknown_target",
    "variants",
    "with_compiled",
]

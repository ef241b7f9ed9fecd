"""Which sharding is best: the space, what is ruled out and why, and its order."""

from spmd_core.search import axis_rules, link, models
from spmd_core.search.answer import FEW, TOP, Answer, Proof, is_alone_beside
from spmd_core.search.array_question import ArrayQuestion, read_array_question, unknown_target
from spmd_core.search.array_search import Space
from spmd_core.search.candidate import MOST, Candidate, Reason, Rule, over_limit, too_large
from spmd_core.search.chips import generations, named_meshes, read_chips, staged_meshes
from spmd_core.search.kept import KeptCandidate, KeptSearch, read_kept
from spmd_core.search.link import AnyQuestion
from spmd_core.search.models import (
    WIDE,
    candidate_of,
    candidates,
    candidates_under,
    plain_candidates,
    space_size,
)
from spmd_core.search.neighborhood import (
    Policy,
    best_neighbors,
    policies,
    smallest,
    step_options,
)
from spmd_core.search.question import (
    BATCHES,
    GOALS,
    MOST_GIB,
    REMATS,
    Goal,
    ModelQuestion,
    Question,
    bytes_of,
    check_prices,
    price_example,
    question_for,
    read_prices,
    read_question,
    without_options,
)
from spmd_core.search.ranking import SAME, Ranked, price_per_billion, score
from spmd_core.search.serving import (
    CompiledDecode,
    ServingAnswer,
    ServingRow,
    missed,
    serve,
    with_compiled,
)
from spmd_core.search.serving_apart import Split, splits
from spmd_core.search.serving_frontier import CurvePoint, ServingCurve, frontier, serving_curves
from spmd_core.search.serving_question import SERVING_FORM, ServingQuestion, read_serving
from spmd_core.search.spaces.array_space import meshes
from spmd_core.search.spaces.program_space import ProgramSpace, rules_text, with_constraint
from spmd_core.search.standards import AS_EXPORTED, PIPELINE, StandardSharding

__all__ = [
    "AS_EXPORTED",
    "BATCHES",
    "FEW",
    "GOALS",
    "MOST",
    "MOST_GIB",
    "PIPELINE",
    "REMATS",
    "SAME",
    "SERVING_FORM",
    "TOP",
    "WIDE",
    "Answer",
    "AnyQuestion",
    "ArrayQuestion",
    "Candidate",
    "CompiledDecode",
    "CurvePoint",
    "Goal",
    "KeptCandidate",
    "KeptSearch",
    "ModelQuestion",
    "Policy",
    "ProgramSpace",
    "Proof",
    "Question",
    "Ranked",
    "Reason",
    "Rule",
    "ServingAnswer",
    "ServingCurve",
    "ServingQuestion",
    "ServingRow",
    "Space",
    "Split",
    "StandardSharding",
    "axis_rules",
    "best_neighbors",
    "bytes_of",
    "candidate_of",
    "candidates",
    "candidates_under",
    "check_prices",
    "frontier",
    "generations",
    "is_alone_beside",
    "link",
    "meshes",
    "missed",
    "models",
    "named_meshes",
    "over_limit",
    "plain_candidates",
    "policies",
    "price_example",
    "price_per_billion",
    "question_for",
    "read_array_question",
    "read_chips",
    "read_kept",
    "read_prices",
    "read_question",
    "read_serving",
    "rules_text",
    "score",
    "serve",
    "serving_curves",
    "smallest",
    "space_size",
    "splits",
    "staged_meshes",
    "step_options",
    "too_large",
    "unknown_target",
    "with_compiled",
    "with_constraint",
    "without_options",
]

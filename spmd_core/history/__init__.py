"""The sentences of stored runs: cells of the list, differences, what a search understood."""

from spmd_core.history.cells import (
    EXAMPLE,
    answer_words,
    asks_for_examples,
    fastest_words,
    foreign_search_words,
    imported_words,
    is_example,
    labels_words,
    operand_bytes,
    origin_words,
    shape_words,
    when_words,
)
from spmd_core.history.differences import (
    basis_words,
    between_words,
    difference_rows,
    factor_words,
    part_words,
)
from spmd_core.history.outcomes import (
    FITS,
    PLACED,
    Came,
    Judged,
    came_out,
    evidence_of,
    figure,
    outcome,
)
from spmd_core.history.understood import matches, read_search

__all__ = [
    "EXAMPLE",
    "FITS",
    "PLACED",
    "Came",
    "Judged",
    "answer_words",
    "asks_for_examples",
    "basis_words",
    "between_words",
    "came_out",
    "difference_rows",
    "evidence_of",
    "factor_words",
    "fastest_words",
    "figure",
    "foreign_search_words",
    "imported_words",
    "is_example",
    "labels_words",
    "matches",
    "operand_bytes",
    "origin_words",
    "outcome",
    "part_words",
    "read_search",
    "shape_words",
    "when_words",
]

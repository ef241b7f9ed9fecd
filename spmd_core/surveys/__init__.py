"""The sentences of what compares many runs: studies, searches, sweeps."""

from spmd_core.surveys import search, studies
from spmd_core.surveys.search import TIME_TITLE, called_words, hours_of_tokens
from spmd_core.surveys.search.answer import cost_title, doing, goal_words, not_settled_words
from spmd_core.surveys.search.candidates import why_not
from spmd_core.surveys.studies import explained, whose
from spmd_core.surveys.sweep.curves import (
    Price,
    axis_title,
    mfu_title,
    missing_words,
    of_one_kind,
    point_size_words,
    point_title,
    points_words,
    row_cost,
    row_run,
    run_cells,
    size_headline,
    sizes_offer,
    sweep_headline,
    sweep_notes,
    wins_words,
)
from spmd_core.surveys.sweep.scaling import (
    GOOD,
    Knee,
    grown_most,
    knee,
    may_fall_short,
    reach_words,
    scaled_rows,
    step_tokens,
)

__all__ = [
    "GOOD",
    "TIME_TITLE",
    "Knee",
    "Price",
    "axis_title",
    "called_words",
    "cost_title",
    "doing",
    "explained",
    "goal_words",
    "grown_most",
    "hours_of_tokens",
    "knee",
    "may_fall_short",
    "mfu_title",
    "missing_words",
    "not_settled_words",
    "of_one_kind",
    "point_size_words",
    "point_title",
    "points_words",
    "reach_words",
    "row_cost",
    "row_run",
    "run_cells",
    "scaled_rows",
    "search",
    "size_headline",
    "sizes_offer",
    "step_tokens",
    "studies",
    "sweep_headline",
    "sweep_notes",
    "whose",
    "why_not",
    "wins_words",
]

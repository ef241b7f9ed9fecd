"""Sheets of results: the columns of each kind of row, for every renderer."""

from spmd_core.answers.candidates import (
    SEARCHES,
    SearchRow,
    best_table,
    every_table,
    kept_ranking,
    ranking_table,
)
from spmd_core.answers.causes import Cause, causes
from spmd_core.answers.collective_sheet import (
    collectives_table,
    step_collectives,
)
from spmd_core.answers.drawn import devices_text, layout_lines
from spmd_core.answers.machine_sheets import CEILING_ROWS, POINTS, ceiling_figures
from spmd_core.answers.measuring import (
    DETAILS,
    parts_table,
    phases_table,
    samples_table,
    series_table,
)
from spmd_core.answers.program_sheet import ProgramRow, programs_table, programs_words
from spmd_core.answers.search_lines import search_lines
from spmd_core.answers.serving_kept import (
    kept_serving,
    served_points_json,
    serving_json,
    serving_question_json,
)
from spmd_core.answers.serving_sheet import (
    PART_NAMES,
    SERVED_POINTS,
    SERVING_LOADS,
    SPLITS,
    apart_headline,
    compiled_steps,
    served_chips,
    served_mesh,
    served_points_headline,
    serving_assumptions,
    serving_figures,
    serving_headline,
    serving_table,
    why_not_served,
)
from spmd_core.answers.strategies import (
    STRATEGIES,
    StrategyRow,
    communicated,
    peak_bytes,
    strategies_table,
    strategy_rows,
)
from spmd_core.answers.sweep_sheet import SIZES, point_state, points_table
from spmd_core.answers.training_sheet import (
    ABOUT_EVEN,
    CONTEXT_ROWS,
    Figure,
    context_headline,
    even_mark,
    five_figures,
    training_headline,
    training_table,
    tried_words,
)
from spmd_core.answers.what_if import WHAT_IF, WhatIf

__all__ = [
    "ABOUT_EVEN",
    "CEILING_ROWS",
    "CONTEXT_ROWS",
    "DETAILS",
    "PART_NAMES",
    "POINTS",
    "SEARCHES",
    "SERVED_POINTS",
    "SERVING_LOADS",
    "SIZES",
    "SPLITS",
    "STRATEGIES",
    "WHAT_IF",
    "Cause",
    "Figure",
    "ProgramRow",
    "SearchRow",
    "StrategyRow",
    "WhatIf",
    "apart_headline",
    "best_table",
    "causes",
    "ceiling_figures",
    "collectives_table",
    "communicated",
    "compiled_steps",
    "context_headline",
    "devices_text",
    "even_mark",
    "every_table",
    "five_figures",
    "kept_ranking",
    "kept_serving",
    "layout_lines",
    "parts_table",
    "peak_bytes",
    "phases_table",
    "point_state",
    "points_table",
    "programs_table",
    "programs_words",
    "ranking_table",
    "samples_table",
    "search_lines",
    "series_table",
    "served_chips",
    "served_mesh",
    "served_points_headline",
    "served_points_json",
    "serving_assumptions",
    "serving_figures",
    "serving_headline",
    "serving_json",
    "serving_question_json",
    "serving_table",
    "step_collectives",
    "strategies_table",
    "strategy_rows",
    "training_headline",
    "training_table",
    "tried_words",
    "why_not_served",
]

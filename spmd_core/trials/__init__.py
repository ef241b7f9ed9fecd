"""Carries out a search, and tries what would remove a collective."""

from spmd_core.trials.known_sizes import known_sizes, sizes_of
from spmd_core.trials.remedies.arrays import candidates as first_changes
from spmd_core.trials.remedies.attached import beside, is_guessed, remedy_lines, with_remedies
from spmd_core.trials.searching import searches
from spmd_core.trials.searching.search import FEW_S, Search
from spmd_core.trials.searching.work import carried_out
from spmd_core.trials.trying import remedy_searches
from spmd_core.trials.trying.remedy_search import RemedySearch
from spmd_core.trials.trying.remedy_searches import store, with_stored_answers

__all__ = [
    "FEW_S",
    "RemedySearch",
    "Search",
    "beside",
    "carried_out",
    "first_changes",
    "is_guessed",
    "known_sizes",
    "remedy_lines",
    "remedy_searches",
    "searches",
    "sizes_of",
    "store",
    "with_remedies",
    "with_stored_answers",
]

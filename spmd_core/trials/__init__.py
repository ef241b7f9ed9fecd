"""Carries out a search, and tries what would remove a collective."""

from spmd_core.trials.remedies.attached import beside, is_guessed, with_remedies
from spmd_core.trials.searching import searches
from spmd_core.trials.searching.outcomes import candidate_row
from spmd_core.trials.searching.search import FEW, FEW_S, Search
from spmd_core.trials.searching.searches import watch_search
from spmd_core.trials.trying import tryouts
from spmd_core.trials.trying.tryout import Tryout
from spmd_core.trials.trying.tryouts import store, told, watch_tryout

__all__ = [
    "FEW",
    "FEW_S",
    "Search",
    "Tryout",
    "beside",
    "candidate_row",
    "is_guessed",
    "searches",
    "store",
    "told",
    "tryouts",
    "watch_search",
    "watch_tryout",
    "with_remedies",
]

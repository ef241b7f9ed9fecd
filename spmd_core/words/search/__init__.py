"""The sentences of a search: of its answer, and of its candidates."""

from spmd_core.words.search.answer import (
    MEANING,
    cost_text,
    cost_title,
    disturbed_words,
    doing,
    front_words,
    goal_words,
    headline,
    minimized_words,
    next_words,
    nothing_left,
    proof_run_words,
    proof_words,
    ranked_words,
    rates_words,
    space_words,
    state_words,
    sure_words,
)
from spmd_core.words.search.candidates import (
    FATES,
    beats,
    classic_words,
    known_by,
    ties_words,
    time_words,
    why_not,
)

__all__ = ["FATES", "MEANING", "beats", "classic_words", "cost_text", "cost_title",
           "disturbed_words", "doing", "front_words",
           "goal_words", "headline", "known_by", "minimized_words", "next_words", "nothing_left",
           "proof_run_words", "proof_words", "ranked_words", "rates_words", "space_words",
           "state_words", "sure_words", "ties_words", "time_words", "why_not"]

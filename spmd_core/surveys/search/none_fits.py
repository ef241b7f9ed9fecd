"""Sentences of a search where nothing is sure to fit: on what, by how much, and what fits near."""

from spmd_core.base import bytes_text, count_text
from spmd_core.search import Answer, ModelQuestion
from spmd_core.surveys.search.candidates import lead_name, time_of_tokens
from spmd_core.sweeps import NoneFits
from spmd_core.terms import chip_title, listed
from spmd_core.words import predictions

_MOST_KINDS = 3  # of chips that a sentence names


def none_fits_headline(answer: Answer, near: NoneFits) -> str:
    """Returns whether something may fit, and on which chips it would have to, in a sentence."""
    question = answer.question
    assert isinstance(question, ModelQuestion)
    if near.in_parts:
        return f"Fits on {near.plan.topology.chips:,} {chip_title(near.plan.topology.chip.generation)} only in {near.in_parts:,} microbatches."
    verb = "Nothing is sure to fit" if answer.ranking else "Nothing fits"
    limit = question.memory_bytes
    inside = f" in {bytes_text(limit)} per device" if limit else ""
    return f"{verb}{inside} on {_chips_words(question)}."


def _chips_words(question: ModelQuestion) -> str:
    most = {each.chip.generation: each.chips for each in question.topologies}
    if len(most) > _MOST_KINDS:
        return "these chips"
    return listed([f"{count_text(chips)} {chip_title(kind)}" for kind, chips in most.items()], "or")


def more_chips_words(near: NoneFits) -> str:
    """Returns the fewest chips tried on which a plan is sure to fit, as a label; "" for none."""
    return _chips_words(near.more) if near.more else ""


def fits_near_words(near: NoneFits) -> str:
    """Returns on how many more chips a plan is sure to fit, the best that a look finds there, and how
    long it takes; what else would help where no number of chips that was tried does.
    """
    if near.best is None:
        return "Use more chips, fewer sequences, or fix less."
    time = f"{time_of_tokens(near.best)} for a billion tokens, estimated"
    return f"Fits on {more_chips_words(near)}: {lead_name(near.best)}, {time}."


def why_none_fits(near: NoneFits) -> str:
    """Returns which parts of the plan that comes nearest are too much together; "" where it may fit."""
    return "" if near.step.is_timed else " ".join(predictions.why_not(near.step, near.plan))

"""Candidates of a model's space near its best: one change away, and of other batches, until none of
them is faster.
"""

from collections.abc import Iterator
from contextlib import suppress

from spmd_core.base import RequestError
from spmd_core.plan import Plan
from spmd_core.search import (
    BATCHES,
    REMATS,
    SAME,
    Candidate,
    ModelQuestion,
    Policy,
    best_neighbors,
    candidate_of,
    candidates_under,
)
from spmd_core.sweeps.best_mesh import best_mesh

_MOST_STEPS = 12  # of a descent, each of about a hundred estimates; more than 5 were not seen
_MOST_NEAR = 8  # neighbors of a plan that are looked up in the space: many have names of their own


def descent(question: ModelQuestion, first: Candidate) -> Iterator[Candidate]:
    """Yields better candidates of a space than one that is sure to fit, each the best in reach of the
    one before: one change away, or the best mesh with the next larger or smaller batch where that is
    free.
    """
    now, tried = first, set[float]()
    for _ in range(_MOST_STEPS):
        if (better := _near(question, now)) is None:
            better = _of_other_batches(question, now, tried)
        if better is None:
            return
        yield (now := better)


def best_of_batch(
    question: ModelQuestion, target: str, per_device: float, has_options: bool = True
) -> Candidate | None:
    """Returns the plan with the best mesh for sequences of a device, under options too, of a question
    that holds nothing else; None where it has no candidate for that.
    """
    if question.fixed or question.memory_bytes or question.remat != REMATS or question.plan:
        return None
    one = at_batch(question, target, per_device)
    (topology,) = one.topologies
    form = {"model": question.model, "sequence": question.sequence}
    with suppress(RequestError):
        batch = per_device * topology.devices
        best = best_mesh(form, topology.target, batch, REMATS, has_options=has_options)
        if best.fits and (question.offload or not best.plan.offload):
            # what is offloaded in microbatches is not among those of the space
            beside = candidates_under(one, best.plan, [_policy_of(best.plan)])
            return candidate_of(one, best.plan) or next(beside, None)
    return None


def _policy_of(plan: Plan) -> Policy:
    options = {"microbatches": plan.microbatches, "compiler_flags": plan.compiler_flags}
    listed = tuple((name, value) for name, value in options.items() if value)
    return Policy(plan.remat, plan.save, plan.offload, listed)


def at_batch(question: ModelQuestion, target: str, per_device: float) -> ModelQuestion:
    """Returns the question on one topology with one batch."""
    change = {"chips": (target,), "batch_per_device": per_device, "global_batch": None}
    return question.model_copy(update=change)


def _near(question: ModelQuestion, now: Candidate) -> Candidate | None:
    """The best neighbor of a candidate that is one of the space and takes less; None where none does."""
    if (plan := now.plan) is None:
        return None
    most, left = _rate(now) * (1 - SAME), _MOST_NEAR
    for seconds, other in best_neighbors(plan):
        if seconds >= most or not left:
            return None
        if not _is_open(question, plan.batch_per_device, other.batch_per_device):
            continue
        left -= 1
        each = candidate_of(at_batch(question, plan.target, other.batch_per_device), other)
        if each and is_sure(each) and _rate(each) < most:
            return each
    return None


def _is_open(question: ModelQuestion, now: float, other: float) -> bool:
    return now == other or (is_free(question) and other in BATCHES)


def is_free(question: ModelQuestion) -> bool:
    """Returns True if a question leaves the batch open."""
    return question.global_batch is None and question.batch_per_device is None


def is_sure(each: Candidate) -> bool:
    """Returns True if a candidate has a time and is sure to fit."""
    return each.is_ranked and each.fits == "yes"


def _of_other_batches(
    question: ModelQuestion, now: Candidate, tried: set[float]
) -> Candidate | None:
    plan = now.plan
    if plan is None or not is_free(question) or plan.batch_per_device not in BATCHES:
        return None
    at = BATCHES.index(plan.batch_per_device)
    tried.add(plan.batch_per_device)
    for batch in (*BATCHES[at + 1 : at + 2], *BATCHES[max(0, at - 1) : at]):
        if batch in tried:
            continue
        tried.add(batch)
        # options are among the neighbors of what is better without them
        each = best_of_batch(question, plan.target, batch, has_options=False)
        if each and is_sure(each) and _rate(each) < _rate(now) * (1 - SAME):
            return each
    return None


def _rate(each: Candidate) -> float:
    return (each.seconds or float("inf")) / each.tokens

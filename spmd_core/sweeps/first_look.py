"""What estimates of a few candidates show of a question, at once."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache

from spmd_core.base import RequestError, firsts_by_key
from spmd_core.fields import Mesh
from spmd_core.plan import MICROBATCHES, Plan
from spmd_core.search import (
    WIDE,
    Answer,
    AnyQuestion,
    Candidate,
    ModelQuestion,
    Policy,
    Space,
    candidates_under,
    link,
    plain_candidates,
    space_size,
    step_options,
)
from spmd_core.sweeps.descent import at_batch, best_of_batch, descent, is_free, is_sure
from spmd_core.time import may_pass_in_rings

MOST_LOOKED = 300  # candidates of a target: half a second of estimates
_MOST_TARGETS = 4  # the largest of each kind of chip
# sequences per device: one fits where any do on few chips, and eight fill matrix products and links;
# between them the best mesh may change
_BATCHES = (1.0, 8.0)
_FEWER = (0.25,)  # where none is sure to fit: large models on many small chips
_KEPT = 32


def first_look(question: AnyQuestion) -> Answer | None:
    """Returns the answer from the estimates of some candidates, the standard shardings among them;
    None where none can be estimated from the sizes at once.
    """
    try:
        return _first_look(link.encode(question))
    except RequestError:
        return None


@lru_cache(maxsize=_KEPT)
def _first_look(code: str) -> Answer | None:
    question = link.decode(code)
    if isinstance(question, ModelQuestion):
        looked = _looked(question)
    elif question.described:
        return None
    else:
        looked = _limited(Space(question, os.cpu_count() or 1).candidates)
    if not looked:
        return None
    answer = Answer(question, len(looked), looked, False)
    if answer.winner is None and isinstance(question, ModelQuestion):  # others may be sure to fit
        return replace(answer, space=max(len(looked), space_size(question)))
    return answer


def _looked(question: ModelQuestion) -> list[Candidate]:
    """Candidates without offloading, else with it, else of fewer sequences, else in microbatches: the
    first of these with one that is sure to fit, and what is better near the best of these, else those
    of which the most may. One in more microbatches than options have gathers its weights so often
    that any of these may be faster.
    """
    best, parts = list[Candidate](), list[ModelQuestion]()
    in_many = list[list[Candidate]]()
    for batches in (_BATCHES, _FEWER) if is_free(question) else (_BATCHES,):
        parts = _parts(question, batches)
        for offload in (False, True) if question.offload else (False,):
            looked = _apart(_some(part, offload) for part in parts)
            sure = [each for each in looked if is_sure(each)]
            if not all(_in_many(each) for each in sure):
                return _improved(question, _apart([*in_many, looked]))
            in_many += [sure] if sure else []
            best = max(best, looked, key=_many)
    parted = _apart([*in_many, best, *(list(_in_microbatches(part, best)) for part in parts)])
    if any(is_sure(each) for each in parted):
        return _improved(question, parted)
    return best


def _in_many(each: Candidate) -> bool:
    plan = None if each.is_pipeline else each.plan
    return plan is not None and (plan.microbatches or 1) > MICROBATCHES[-1]


def _in_microbatches(question: ModelQuestion, looked: Sequence[Candidate]) -> Iterator[Candidate]:
    """Each mesh with as little saved as may be, under all options."""
    (topology,) = question.topologies
    given = dict(question.plan)
    rings = may_pass_in_rings(topology, given.get("compiler_flags") or ())
    tried = [Policy("full", options=each) for each in step_options(given, rings) if each]
    for first in _firsts(looked, topology.target).values() if "full" in question.remat else ():
        yield from candidates_under(question, first, tried)


def _improved(question: ModelQuestion, looked: list[Candidate]) -> list[Candidate]:
    """The candidates with what a descent from the best of each target adds, and with each mesh under
    the policy of that: else a mesh would be behind for its policy alone.
    """
    if question.minimize == "memory":
        return looked
    more: list[list[Candidate]] = []
    for target, first in Answer(question, len(looked), looked, False).best_by_target.items():
        steps = [*descent(question, first)] if is_sure(first) else []
        last = steps[-1].plan if steps else None
        if last is not None:
            part = at_batch(question, target, last.batch_per_device)
            same = [e for e in looked if e.target == target and _batch(e) == last.batch_per_device]
            same = same or _some(part, False)
            more += [steps, same, [*_as_the_best(part, same, steps[-1:])]]
    return _apart([looked, *more]) if more else looked


def _batch(each: Candidate) -> float | None:
    return each.step.of_mesh.batch_per_device if each.step else None


def _many(looked: Sequence[Candidate]) -> tuple[int, int]:
    return sum(each.is_ranked for each in looked), len(looked)


def _apart(parts: Iterable[Sequence[Candidate]]) -> list[Candidate]:
    """The candidates of several questions under numbers of one, each name once."""
    looked: list[Candidate] = []
    for part in parts:
        named = list(firsts_by_key((each.name, each) for each in part).values())
        places = {each.number: at for at, each in reversed([*enumerate(named, len(looked))])}
        for at, each in enumerate(named, len(looked)):
            same = None if each.equal is None else places.get(each.equal)
            looked.append(replace(each, number=at, equal=same))
    return looked


def _parts(question: ModelQuestion, batches: Sequence[float]) -> list[ModelQuestion]:
    """The question on the largest topology of each kind of chip, with each of these batches where it
    is free.
    """
    largest = {each.chip.generation: each.target for each in question.topologies}
    updates = [{"batch_per_device": each} for each in batches] if is_free(question) else [{}]
    return [
        question.model_copy(update={"chips": (target,)} | update)
        for target in list(largest.values())[:_MOST_TARGETS]
        for update in updates
    ]


def _some(question: ModelQuestion, offload: bool) -> list[Candidate]:
    """Plain candidates, the best plan under all options, and each mesh under the options of that;
    what is offloaded multiplies the first.
    """
    plain = question.model_copy(update={"offload": offload})
    if space_size(plain, is_plain=True) > WIDE:  # a look at each mesh first would take seconds
        return []
    looked = _limited(lambda stop: plain_candidates(plain, stop))
    best = [*best_plans(question)]
    return [*looked, *best, *_as_the_best(question, looked, best)]


def _as_the_best(
    question: ModelQuestion, looked: Sequence[Candidate], best: Sequence[Candidate]
) -> Iterator[Candidate]:
    """Each mesh under the policy of the best plan, and under its own best policy with the options of
    that plan: without them a mesh would be behind for its options alone.
    """
    firsts = _firsts(looked)
    ranked = Answer(question, len(looked), looked, False).ranking
    own = firsts_by_key(
        (each.candidate.step.of_mesh.mesh, each.candidate.step.policy)
        for each in ranked
        if each.candidate.step
    )
    for each in best:
        policy = each.step.policy if each.step else Policy("full")
        for mesh, first in firsts.items():
            mine = replace(own.get(mesh, policy), options=policy.options)
            tried = {policy, mine} if policy.options else {policy}
            yield from candidates_under(question, first, [*tried])


def _firsts(looked: Sequence[Candidate], target: str = "") -> dict[Mesh, Plan]:
    """The plans that are varied by policies, of each mesh one."""
    plans = (each.step.of_mesh for each in looked if each.step)
    return firsts_by_key((plan.mesh, plan) for plan in plans if target in ("", plan.target))


def best_plans(question: ModelQuestion) -> Iterator[Candidate]:
    """Yields the plan that Predict finds on each topology of a question that holds nothing but a batch."""
    for topology in question.topologies:
        batch = question.batch_per_device
        if question.global_batch:
            batch = question.global_batch / topology.devices
        if batch and (best := best_of_batch(question, topology.target, batch)):
            yield best


def _limited(listed: Callable[[Callable[[], bool]], Iterator[Candidate]]) -> list[Candidate]:
    """The candidates until there are enough."""
    looked: list[Candidate] = []
    for each in listed(lambda: len(looked) >= MOST_LOOKED):
        looked.append(each)
    return looked

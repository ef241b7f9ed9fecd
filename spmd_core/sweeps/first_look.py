"""What estimates of a few candidates show of a question, at once."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from spmd_core.base import RequestError, firsts_by_key
from spmd_core.search import (
    REMATS,
    WIDE,
    Answer,
    AnyQuestion,
    Candidate,
    ModelQuestion,
    Policy,
    Space,
    candidate_of,
    candidates_under,
    link,
    plain_candidates,
    space_size,
)
from spmd_core.sweeps.best_mesh import best_mesh

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
    """Candidates without offloading, else with it, else of fewer sequences: the first of these with
    one that is sure to fit, else those of which the most may.
    """
    best: list[Candidate] = []
    for batches in (_BATCHES, _FEWER) if _is_free(question) else (_BATCHES,):
        parts = _parts(question, batches)
        for offload in (False, True) if question.offload else (False,):
            looked = _apart(_some(part, offload) for part in parts)
            if any(_is_sure(each) for each in looked):
                return looked
            best = max(best, looked, key=_many)
    return best


def _many(looked: Sequence[Candidate]) -> tuple[int, int]:
    return sum(each.is_ranked for each in looked), len(looked)


def _is_free(question: ModelQuestion) -> bool:
    return question.global_batch is None and question.batch_per_device is None


def _is_sure(each: Candidate) -> bool:
    return each.is_ranked and each.fits == "yes"


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
    is_free = _is_free(question)
    updates = [{"batch_per_device": each} for each in batches] if is_free else [{}]
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
    best = [*_best(question)]
    return [*looked, *best, *_as_the_best(question, looked, best)]


def _as_the_best(
    question: ModelQuestion, looked: Sequence[Candidate], best: Sequence[Candidate]
) -> Iterator[Candidate]:
    """Each mesh under the policy of the best plan, and under its own best policy with the options of
    that plan: without them a mesh would be behind for its options alone.
    """
    firsts = firsts_by_key(
        (each.mesh, each) for each in (each.step.of_mesh for each in looked if each.step)
    )
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


def _best(question: ModelQuestion) -> Iterator[Candidate]:
    """The plan with the best mesh, under all options, of a question that holds nothing but a batch."""
    is_bound = question.fixed or question.memory_bytes or question.remat != REMATS
    batch = question.global_batch or question.batch_per_device
    if is_bound or question.plan or batch is None:
        return
    for topology in question.topologies:
        form = {"model": question.model, "sequence": question.sequence}
        total = question.global_batch or batch * topology.devices
        with suppress(RequestError):
            best = best_mesh(form, topology.target, total, REMATS)
            if best.fits and (question.offload or not best.plan.offload):
                candidate = candidate_of(question, best.plan)
                yield from [candidate] if candidate else []


def _limited(listed: Callable[[Callable[[], bool]], Iterator[Candidate]]) -> list[Candidate]:
    """The candidates until there are enough."""
    looked: list[Candidate] = []
    for each in listed(lambda: len(looked) >= MOST_LOOKED):
        looked.append(each)
    return looked

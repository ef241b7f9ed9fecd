"""What estimates of a few candidates show of a question, at once."""

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache

from spmd_core.base import RequestError
from spmd_core.search import (
    REMATS,
    WIDE,
    Answer,
    AnyQuestion,
    Candidate,
    ModelQuestion,
    Space,
    candidate_of,
    link,
    plain_candidates,
    space_size,
)
from spmd_core.sweeps.best_mesh import best_mesh

MOST_LOOKED = 400  # candidates of a target: half a second of estimates
_MOST_TARGETS = 4  # the largest of each kind of chip
# sequences per device: one always fits, and eight fill matrix products and links; between them the
# best mesh may change
_BATCHES = (1.0, 8.0)
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
        looked = [each for part in _parts(question, False) for each in _some(part)]
        if question.offload and not any(each.is_ranked for each in looked):
            looked = [each for part in _parts(question, True) for each in _some(part)]
    elif question.described:
        return None
    else:
        looked = _limited(Space(question, os.cpu_count() or 1).candidates)
    return Answer(question, len(looked), looked, False) if looked else None


def _parts(question: ModelQuestion, offload: bool) -> list[ModelQuestion]:
    """The question on the largest topology of each kind of chip, with a small and a larger batch
    where it is free; what is offloaded multiplies the candidates.
    """
    largest = {each.chip.generation: each.target for each in question.topologies}
    is_free = question.global_batch is None and question.batch_per_device is None
    batches = [{"batch_per_device": each} for each in _BATCHES] if is_free else [{}]
    return [
        question.model_copy(update={"offload": offload, "chips": (target,)} | batch)
        for target in list(largest.values())[:_MOST_TARGETS]
        for batch in batches
    ]


def _some(question: ModelQuestion) -> list[Candidate]:
    if space_size(question, is_plain=True) > WIDE:  # a look at each mesh first would take seconds
        return []
    looked = _limited(lambda stop: plain_candidates(question, stop))
    known = {each.number for each in looked}
    return [*looked, *(each for each in _best(question) if each.number not in known)]


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

"""What a search shows where nothing is sure to fit: the plan that comes nearest, and more chips."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from spmd_core.base import RequestError
from spmd_core.facts import Prediction
from spmd_core.machine import get_topology, nearest_of_chips
from spmd_core.plan import MICROBATCHES, Plan
from spmd_core.search import BATCHES, REMATS, Answer, Candidate, ModelQuestion, link
from spmd_core.sweeps.descent import is_free
from spmd_core.sweeps.first_look import first_look
from spmd_core.sweeps.least_memory import least_memory
from spmd_core.sweeps.training import TrainingQuestion
from spmd_core.sweeps.training_search import MOST_CHIPS
from spmd_core.sweeps.ways_out import ways_out
from spmd_core.time import estimate_memory, estimate_step
from spmd_core.workloads import changed_plan

_TOKENS = 1e9  # of a run whose length decides nothing here
_MOST_LOOKED_AT = 4  # numbers of chips, of which each takes up to a second
_KEPT = 32


@dataclass(frozen=True, slots=True)
class NoneFits:
    """What is known of a question on whose chips nothing is sure to fit.

    Attributes:
      plan: the plan that comes nearest to fitting.
      step: its instant estimate.
      more: the question of the fewest chips tried on which a plan is sure to fit; None of none.
      best: the first of a look at `more`.
      is_limited: True if the question allows less memory than a device has.
    """

    plan: Plan
    step: Prediction
    more: ModelQuestion | None = None
    best: Candidate | None = None
    is_limited: bool = False

    @property
    def in_parts(self) -> int | None:
        """In how many microbatches, more than a search tries, the plan is sure to fit; None where it is
        not.
        """
        return self.plan.microbatches if self.step.fit == "fits" and not self.is_limited else None


def none_fits(answer: Answer) -> NoneFits | None:
    """Returns what comes nearest to fitting, and more chips of its kind that hold a plan; None of a
    computation, where something is sure to fit, or where no candidate has a size.
    """
    question = answer.question
    if answer.winner or not isinstance(question, ModelQuestion):
        return None
    if answer.ranking and (plan := answer.ranking[0].candidate.plan):  # which may fit
        return NoneFits(plan, estimate_step(plan), *_on_more(link.encode(question), plan))
    held = [each for each in answer.found if each.step and each.memory_bytes]
    if not held or (plan := min(held, key=_filled).plan) is None:
        return None
    near = plan if _is_bound(question) else least_memory(plan)
    more, best = _on_more(link.encode(question), near)
    if not _is_bound(question):
        plan = least_memory(_with_fewest_sequences(plan) if is_free(question) else plan)
        plan = _with_fewest_parts(plan)
    return NoneFits(plan, estimate_step(plan), more, best, bool(question.memory_bytes))


def _with_fewest_parts(plan: Plan) -> Plan:
    """Returns a plan that fits in the fewest microbatches in which it is sure to; another as it is."""
    capacity = plan.topology.chip.capacity
    while (parts := plan.microbatches or 0) > MICROBATCHES[0]:
        fewer = plan
        with suppress(RequestError):
            fewer = changed_plan(plan, {"microbatches": parts // 2})
        if fewer == plan or estimate_memory(fewer).fits(capacity) != "yes":
            return plan
        plan = fewer
    return plan


def _with_fewest_sequences(plan: Plan) -> Plan:
    """The plan with the smallest batch that is searched: however far a search came, it has one."""
    devices, meshes = plan.topology.devices, [plan.mesh]
    if plan.topology.slices == 1:  # `least_memory` chooses among all
        meshes += [((axis, devices),) for axis in ("tensor", "sequence", "fsdp")]
    for batch in BATCHES:
        for mesh in meshes:
            change = {"mesh": mesh, "batch_per_device": batch, "microbatches": None}
            with suppress(RequestError):
                return changed_plan(plan, change)
    return plan


def _filled(each: Candidate) -> float:
    """Returns the memory that a candidate needs over that of a device."""
    return (each.memory_bytes or 0) / get_topology(each.target).chip.device_hbm_bytes


def _is_bound(question: ModelQuestion) -> bool:
    return bool(question.fixed or question.memory_bytes or question.remat != REMATS)


@lru_cache(maxsize=_KEPT)
def _on_more(code: str, plan: Plan) -> tuple[ModelQuestion | None, Candidate | None]:
    question = link.decode(code)
    assert isinstance(question, ModelQuestion)
    kind = plan.topology.chip.generation
    priced = tuple(each for each in question.price if each[0] == kind)
    for chips in _counts(question, plan):
        change = {"chips": (f"{kind}:{chips}",), "price": priced}
        more = question.model_copy(update=change)
        look = first_look(more)
        if look and look.winner:
            return more, look.winner
    return None, None


def _counts(question: ModelQuestion, plan: Plan) -> Iterator[int]:
    """Numbers of chips that may hold a plan: from the first that is sure to, where all is free."""
    chips, kind = 2 * plan.topology.chips, plan.topology.chip.generation
    if not _is_bound(question):
        form = {"model": plan.model, "sequence": plan.sequence} | dict(question.plan)
        asked = TrainingQuestion(form, _TOKENS, plan.batch, (kind,), plan.topology.chips)
        try:
            ways = [way.plan.topology.chips for way in ways_out(asked, plan) if way.is_sure]
        except RequestError:
            ways = []
        chips = max(chips, min(ways, default=chips))
    for _ in range(_MOST_LOOKED_AT):
        if chips > MOST_CHIPS:
            return
        if nearest_of_chips(kind, chips).chips == chips:
            yield chips
        chips *= 2

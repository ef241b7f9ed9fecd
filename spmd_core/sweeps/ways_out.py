"""Plans that fit near one that does not: with fewer tokens a step, or on more chips."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from spmd_core.facts import Prediction
from spmd_core.machine import nearest_of_chips
from spmd_core.plan import Plan
from spmd_core.sweeps.training import TrainingQuestion
from spmd_core.sweeps.training_cost import TrainingCost, training_run
from spmd_core.sweeps.training_search import MOST_CHIPS, train
from spmd_core.time import estimate_memory, nearest_fit

_MOST_LOOKED_AT = 5  # numbers of chips, of which each takes up to a second
_STATE = ("frozen weights", "parameters and optimizer")


@dataclass(frozen=True, slots=True)
class WayOut:
    """A plan that fits, the instant estimate of its step, and what the run takes."""

    plan: Plan
    step: Prediction
    run: TrainingCost

    @property
    def is_sure(self) -> bool:
        """True if all of the interval of its memory fits."""
        return self.step.fit == "fits"


def ways_out(question: TrainingQuestion, plan: Plan) -> tuple[WayOut, ...]:
    """Returns plans that fit near one that does not, the fewest chips first: on its own chips with
    fewer tokens a step, and on more of them what a question of so many finds, up to those on which the
    full batch is sure to fit. None of them has as many chips and takes as long as one before it that
    is as sure and has as many tokens; one that is sure to fit has fewer tokens.

    Args:
      question: what is trained; its chips and their kind are those of the plan.
      plan: one that does not fit.
    """
    ways = [*_with_fewer_tokens(question, plan), *_on_more_chips(question, plan)]
    kept: list[WayOut] = []
    for way in sorted(ways, key=lambda way: (way.plan.topology.chips, way.run.days.estimate)):
        is_fewer = way.plan.tokens < plan.tokens
        has_fewer = any(other.is_sure for other in kept) and is_fewer
        if not (has_fewer or any(_is_as_good(other, way) for other in kept)):
            kept.append(way)
    return tuple(kept)


def _is_as_good(way: WayOut, other: WayOut) -> bool:
    fewer = way.plan.tokens < other.plan.tokens or way.is_sure < other.is_sure
    return not fewer and way.run.days.estimate <= other.run.days.estimate


def _with_fewer_tokens(question: TrainingQuestion, plan: Plan) -> Iterator[WayOut]:
    """The nearest plan on the same chips, if one is sure to fit."""
    bare = plan.model_copy(update={"microbatches": None, "offload": ()})
    nears = [each for each in map(nearest_fit, dict.fromkeys((plan, bare))) if each]
    for near in nears:
        if near.plan.topology == plan.topology and near.plan.tokens <= plan.tokens:
            if run := training_run(near.prediction, near.plan, question.tokens):
                yield WayOut(near.plan, near.prediction, run)
            return


def _on_more_chips(question: TrainingQuestion, plan: Plan) -> Iterator[WayOut]:
    """The plans of twice, four times and so on as many chips that hold the state, up to those on which
    one with the batch is sure to fit; beside one that is not sure to, the nearest that is.
    """
    chips, kind = plan.topology.chips, plan.topology.chip.generation
    held, most = _state(plan) * chips, plan.topology.chip.capacity.device
    looked_at = 0
    while (chips := 2 * chips) <= MOST_CHIPS and looked_at < _MOST_LOOKED_AT:
        near = nearest_of_chips(kind, chips)
        if near.chips != chips or held > most * chips:
            continue
        looked_at += 1
        asked = replace(question, kinds=(kind,), chips=chips, days=None, budget=None)
        (row,) = train(asked).rows
        if row.plan and row.step and row.run:
            yield WayOut(row.plan, row.step, row.run)
        if row.plan and not (row.run and row.is_sure):
            yield from _with_fewer_tokens(question, row.plan)
        elif row.plan and row.plan.tokens >= plan.tokens:
            return


def _state(plan: Plan) -> float:
    parts = estimate_memory(plan).parts
    return sum(parts.get(name, 0) for name in _STATE)

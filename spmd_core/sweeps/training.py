"""The question of a training run, and its answer: so many chips of each kind, or the fewest that meet
a deadline, or the fastest run that a budget pays.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from spmd_core.base import refuse, shorten
from spmd_core.facts import Prediction
from spmd_core.machine import CHIPS, kind_of
from spmd_core.plan import Plan, get_model
from spmd_core.search import check_prices
from spmd_core.sweeps.training_cost import TrainingCost

KINDS = ("v5e", "v5p", "v6e", "tpu7x", "h100", "b200")
# tokens of a step where no batch is given: Llama 3 405B began with so many, arXiv:2407.21783 section 3.4.1
TOKENS_OF_A_STEP = 2**22
LEAST_MFU = 0.5  # of the best MFU on other numbers of chips: below, most dollars buy waits
_FASTER = 0.8  # of the days of fewer dollars: what more dollars buy is worth a row
_SLOWEST = 30  # times the days of the answer: nobody waits for a month in place of a day
NO_PRICE = "no price per chip-hour"
MAY_MISS = "may miss"  # a deadline that the range of a run meets
COSTS_OVER, MAY_EXCEED = "costs over", "may exceed"  # likewise, a budget


def deadline_verdict(run: TrainingCost, days: float) -> str:
    """Returns whether a run keeps a deadline with all of its range, may miss it, or misses
    it by its estimate.
    """
    if run.days.estimate > days:
        return "misses"
    return "keeps" if run.days.high <= days else MAY_MISS


def budget_verdict(run: TrainingCost, dollars: float) -> str:
    """Returns whether a run keeps a budget with all of its range, may exceed it, or costs more by its
    estimate.
    """
    if (run.money or 0.0) > dollars:
        return COSTS_OVER
    return "keeps" if (run.most_money or 0.0) <= dollars else MAY_EXCEED


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """A model, tokens to train on, and one of: chips of each kind, a deadline, a budget.

    Attributes:
      form: the JSON form of a plan; its target, mesh, batch and rematerialization are searched.
      tokens: to train on.
      batch: sequences of a step, fewer where no more fit; None for `TOKENS_OF_A_STEP`.
      kinds: generations and GPUs to compare.
      chips: of each kind; None where a deadline or a budget decides.
      days: the deadline.
      budget: dollars.
      price: dollars per chip-hour, by kind.
    """

    form: Mapping[str, Any]
    tokens: float
    batch: float | None = None
    kinds: tuple[str, ...] = KINDS
    chips: int | None = None
    days: float | None = None
    budget: float | None = None
    price: tuple[tuple[str, float], ...] = ()

    @property
    def sequences(self) -> float:
        """Sequences of a step."""
        sequence = self.form.get("sequence", Plan.model_fields["sequence"].default)
        return self.batch or max(1, TOKENS_OF_A_STEP // sequence)

    def sequences_on(self, chips: int) -> float:
        """Returns the sequences of a step on so many chips: near those given, a multiple of the chips'
        odd factor and of as many twos as both have, so that most meshes divide it.
        """
        odd, batch = chips // (chips & -chips), int(self.sequences)
        if batch % odd == 0:
            return self.sequences
        unit = min(chips, odd << max(0, (batch // odd).bit_length() - 1))
        return unit * max(1, round(batch / unit))

    def is_met_by(self, run: TrainingCost) -> bool:
        """Returns True if a run keeps the deadline and the budget, as far as they are given."""
        in_time = self.days is None or run.days.estimate <= self.days
        return in_time and (self.budget is None or (run.money or 0.0) <= self.budget)

    def doubt(self, run: TrainingCost) -> str:
        """Returns the verdict on a limit that a run keeps by its estimate alone, else ""."""
        late = deadline_verdict(run, self.days) if self.days else ""
        dear = budget_verdict(run, self.budget) if self.budget else ""
        return next((each for each in (late, dear) if each in (MAY_MISS, MAY_EXCEED)), "")

    def check(self) -> None:
        """Raises RequestError where the question has no answer."""
        if sum(each is not None for each in (self.chips, self.days or self.budget)) != 1:
            rule = "is one of three ways to ask"
            raise refuse("chips", rule, "give chips, or a deadline, or a budget")
        get_model(self.form["model"])
        for name in self.kinds:
            if kind_of(name) is None:
                raise refuse(f"chip {shorten(name)}", "is unknown", f"use {', '.join(CHIPS)}")
        check_prices(self.price, tuple(CHIPS))
        if self.budget and not self.price:
            rule = "needs a price per chip-hour"
            raise refuse(
                f"budget {self.budget:,.15g}", rule, f"add for example {self.kinds[0]}=4.2"
            )


class TriedRun(NamedTuple):
    """The best plan of a number of chips that fits there, and what the run takes."""

    chips: int
    plan: Plan
    step: Prediction
    run: TrainingCost

    @property
    def days(self) -> float:
        """Days of the run."""
        return self.run.days.estimate

    @property
    def chip_days(self) -> float:
        """Chip-days of the run."""
        return self.chips * self.days


@dataclass(frozen=True, slots=True)
class TrainingRow:
    """The best plan of one kind of chip, and what the run takes there.

    Attributes:
      kind: the generation or GPU.
      plan: None where nothing fits or divides; `refusal` is the reason.
      step: the instant estimate of the plan.
      run: days, chip-hours and dollars.
      meets: True if it keeps the deadline and the budget.
      tried: every number of chips that was looked at and holds a plan, ascending.
      counts, plans, pipelines: numbers of chips, plans and, of these, pipelines that were estimated.
      most: the largest number of chips that was looked at.
      least_money: dollars of the run at the peak rate of any number of chips; None without a price.
      compiled: what the plan compiled to, where it was; its memory is the row's, its time is not:
        estimates are compared with estimates.
    """

    kind: str
    plan: Plan | None = None
    step: Prediction | None = None
    run: TrainingCost | None = None
    meets: bool = False
    price: float | None = None
    refusal: str = ""
    tried: tuple[TriedRun, ...] = ()
    counts: int = 0
    plans: int = 0
    pipelines: int = 0
    most: int = 0
    least_money: float | None = None
    compiled: Prediction | None = None

    @property
    def held(self) -> Prediction | None:
        """The memory of the plan: compiled, else estimated."""
        return self.compiled or self.step

    @property
    def is_sure(self) -> bool:
        """True if it compiled to what fits, or else all of the interval of its memory fits."""
        return self.held is not None and self.held.fit == "fits"

    @property
    def thrifty(self) -> TriedRun | None:
        """The fastest number of chips whose MFU is near the best of those tried; None where
        the row's own is.
        """
        most = min((each.run.chip_hours for each in self.tried), default=0.0) / LEAST_MFU
        if self.run is None or self.run.chip_hours <= most:
            return None
        near = [each for each in self.tried if each.run.chip_hours <= most]
        return min(near, key=lambda each: each.days)


@dataclass(frozen=True)
class TrainingAnswer:
    """A row for each kind, in the order of the question."""

    question: TrainingQuestion
    rows: tuple[TrainingRow, ...]

    @cached_property
    def by(self) -> str:
        """What the best row has the least of: dollars of a deadline where two that keep it have a
        price, else chips; days of a budget or a number of chips."""
        if self.question.days is None:
            return "days"
        priced = [bool(row.price) for row in self.rows if row.meets]
        is_compared = sum(priced) > 1 or priced == [True]
        return "dollars" if is_compared else "chips"

    @cached_property
    def best(self) -> TrainingRow | None:
        """The best row of those that meet the question; None where none does."""
        return next((row for row in self.ordered if row.meets), None)

    @cached_property
    def ordered(self) -> tuple[TrainingRow, ...]:
        """Rows that meet the question, the best first, then those that miss it, the nearest to it
        first, then those without a run.
        """
        missed = "dollars" if self.question.budget else "days"

        def key(row: TrainingRow) -> tuple[float, ...]:
            first = self.by if row.meets else missed
            is_unknown = first == "dollars" and not row.price
            measured = (measure(row, by) for by in (first, "days") if row.run)
            return (row.run is None, not row.meets, is_unknown, *measured)

        return tuple(sorted(self.rows, key=key))

    @cached_property
    def even(self) -> tuple[TrainingRow, ...]:
        """Rows about even with the best, the best first: their intervals of days, or of dollars, meet
        its own. Chips are counted: none is even by them.
        """
        if self.best is None or self.by == "chips":
            return ()
        most = _span(self.best, self.by)[1]
        known = (row for row in self.ordered if row.meets and (self.by == "days" or row.price))
        rows = tuple(row for row in known if _span(row, self.by)[0] <= most)
        return rows if len(rows) > 1 else ()

    @cached_property
    def front(self) -> tuple[str, ...]:
        """Kinds than which none is both faster and cheaper, the fastest first; none without prices."""
        priced = [row for row in self.rows if row.run and row.run.money is not None]
        kept: list[TrainingRow] = []
        for row in sorted(priced, key=lambda row: measure(row, "days")):
            if not kept or measure(row, "dollars") < measure(kept[-1], "dollars"):
                kept.append(row)
        return tuple(row.kind for row in kept)

    @cached_property
    def trade(self) -> tuple[TrainingRow, ...]:
        """Rows of numbers of chips, the cheapest first, each a fifth faster than the one before: by a
        budget of those that keep it where some do, by a deadline of all that were looked at; none that
        takes 30 times as long as the answer. None of a given number, without prices, or of fewer
        than two.
        """
        question, best = self.question, self.best
        if question.chips or (best and not best.price):
            return ()
        rows = [self._row_of(row, each) for row in self.rows if row.price for each in row.tried]
        if question.budget:
            rows = [row for row in rows if row.meets] or rows
        most = _SLOWEST * measure(best, "days") if best else math.inf
        rows = [row for row in rows if measure(row, "days") <= most]
        kept: list[TrainingRow] = []
        for row in sorted(rows, key=lambda row: (measure(row, "dollars"), measure(row, "days"))):
            is_faster = not kept or measure(row, "days") < _FASTER * measure(kept[-1], "days")
            if row is best or is_faster:
                kept.append(row)
        return tuple(kept) if len(kept) > 1 else ()

    def _row_of(self, row: TrainingRow, tried: TriedRun) -> TrainingRow:
        """Returns the row of another number of chips of a kind, or its own."""
        if tried.plan == row.plan:
            return row
        plan, step, run, meets = *tried[1:], self.question.is_met_by(tried.run)
        return replace(row, plan=plan, step=step, run=run, meets=meets, compiled=None)


def measure(row: TrainingRow, by: str) -> float:
    """Returns the days, the dollars or the chips of a row that has a run."""
    assert row.run and row.plan
    if by == "days":
        return row.run.days.estimate
    return (row.run.money or 0.0) if by == "dollars" else float(row.plan.topology.chips)


def _span(row: TrainingRow, by: str) -> tuple[float, float]:
    assert row.run
    days, each = row.run.days, measure(row, by) / row.run.days.estimate
    return days.low * each, days.high * each

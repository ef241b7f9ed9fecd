"""Answers the question of a training run: which numbers of chips are looked at, and which plans."""

import math
from collections.abc import Iterator
from dataclasses import replace

from spmd_core.base import RequestError
from spmd_core.machine import nearest_of_chips, topology_of_chips
from spmd_core.plan import Plan
from spmd_core.search import REMATS, without_options
from spmd_core.sweeps.best_mesh import BestMesh, best_mesh, has_stages
from spmd_core.sweeps.least_memory import least_memory
from spmd_core.sweeps.training import (
    NO_PRICE,
    TrainingAnswer,
    TrainingQuestion,
    TrainingRow,
    TriedRun,
)
from spmd_core.sweeps.training_cost import least_chip_days, training_run
from spmd_core.time import estimate_step

MOST_CHIPS = 16384
# times the chips of the fastest so far, none of which is faster: more do not help. Sizes with other
# factors than two may be slower than a smaller and a larger one
_FURTHER = 4
# numbers of chips of a kind on which pipelines are tried, about a second each, and the share of its
# step that the plan without stages waits there at least: it is interconnect-bound
_MOST_IN_STAGES, _MOST_BY_DEADLINE, _WAITS = 4, 8, 0.5
_MOST_GAIN = 0.5  # of a step: no options were seen to spare more
_NEAR = 0.9  # of its chip-days: no other number of chips is better by more
_GAINING = 0.98  # of the chip-days of fewer chips: more chips gain that much at least


def train(question: TrainingQuestion) -> TrainingAnswer:
    """Returns the best plan of each kind of chip.

    Raises:
      RequestError: the question is incomplete, or names an unknown chip.
    """
    question.check()
    return TrainingAnswer(question, tuple(_Kind(question, kind).row() for kind in question.kinds))


class _Kind:
    """What is looked at of one kind of chip, by the number of chips."""

    def __init__(self, question: TrainingQuestion, kind: str):
        self._question, self._kind = question, kind
        self._price = dict(question.price).get(kind)
        self._runs: dict[int, TriedRun] = {}
        self._larger: dict[int, Plan] = {}  # that do not fit
        self._refused: dict[int, str] = {}
        self._optioned: set[int] = set()  # numbers of chips whose plans were tried under options
        self._staged: set[int] = set()  # and in stages
        self._least = 0.0  # chip-days of the FLOPs at the peak
        self._plans = self._pipelines = 0

    def row(self) -> TrainingRow:
        """Returns the best plan: without stages, then in stages where these may be better."""
        question, price = self._question, self._price
        if question.budget and price is None:
            return TrainingRow(self._kind, refusal=NO_PRICE)
        if question.chips:
            counts = [nearest_of_chips(self._kind, question.chips).chips]
            self._look(counts[0])
        else:
            counts = [*_counts(self._kind, question.sequences)]
            self._until(counts, question.days) if question.days else self._paid(counts)
        self._in_stages(counts)
        self._complete()
        runs = [each for _, each in sorted(self._runs.items())]
        looked = {*self._runs, *self._larger, *self._refused}
        row = TrainingRow(
            self._kind,
            price=price,
            tried=tuple(runs),
            counts=len(looked),
            most=max(looked, default=0),
            least_money=24 * self._least * price if self._least and price else None,
            plans=self._plans,
            pipelines=self._pipelines,
        )
        if best := self._best():
            meets = self._is_met(best)
            return replace(row, plan=best.plan, step=best.step, run=best.run, meets=meets)
        if self._larger:
            plan = least_memory(self._larger[max(self._larger)])
            return replace(row, plan=plan, step=estimate_step(plan), refusal="does not fit")
        refusal = self._refused[max(self._refused)] if self._refused else "no number of chips fits"
        return replace(row, refusal=refusal)

    def _look(self, chips: int) -> TriedRun | None:
        """The run of the best plan without stages on so many chips, under options where these may
        make it one that meets the question.
        """
        if chips not in {*self._runs, *self._larger, *self._refused}:
            is_given = self._question.chips is not None
            self._estimate(chips, has_options=is_given)
            if chips not in self._refused and not is_given and self._may_meet(chips):
                self._estimate(chips, has_options=True)
        return self._runs.get(chips)

    def _may_meet(self, chips: int) -> bool:
        """Returns True if the most that options gain would make so many chips meet a deadline that
        they miss, or a budget, faster than what it pays so far.
        """
        if (run := self._runs.get(chips)) is None:
            return True
        least = run._replace(run=run.run.scaled(1 - _MOST_GAIN))
        if self._question.days or not self._is_met(least):
            return self._is_met(least) and not self._is_met(run)
        best = self._best()
        return best is None or not self._is_met(best) or least.days < best.days

    def _is_met(self, run: TriedRun) -> bool:
        return self._question.is_met_by(run.run)

    def _is_kept(self, run: TriedRun) -> bool:
        """Returns True if a run keeps the limits of the question with all of its range."""
        return self._is_met(run) and not self._question.doubt(run.run)

    @property
    def _fewest(self) -> float:
        """Chip-days of the run with the best MFU."""
        return min((each.chip_days for each in self._runs.values()), default=math.inf)

    def _complete(self) -> None:
        """Tries options and stages of the best, until it is one that was tried under both: so many
        chips have the same plan whether their number was given or searched.
        """
        while best := self._best():
            if best.chips not in self._optioned:
                self._estimate(best.chips, has_options=True)
            elif best.chips not in self._staged and self._may_be_in_stages(best.chips):
                self._estimate(best.chips, in_stages=True)
            else:
                return

    def _estimate(self, chips: int, in_stages: bool = False, has_options: bool = False) -> None:
        """Keeps the best plan of so many chips where it is faster than one before."""
        question = self._question
        if has_options:
            self._optioned.add(chips)
        if in_stages:
            self._staged.add(chips)
        try:
            best = self._planned(chips, in_stages, has_options)
        except RequestError as error:
            if chips not in {*self._runs, *self._larger}:
                self._refused[chips] = str(error)
            return
        self._plans += best.plans
        self._pipelines += best.plans * (best.plan.stages > 1)
        self._least = self._least or least_chip_days(best.plan, question.tokens)
        step = estimate_step(best.plan)
        cost = training_run(step, best.plan, question.tokens, self._price) if best.fits else None
        before = self._runs.get(chips)
        if cost is None:
            self._larger.setdefault(chips, best.plan)
        elif before is None or cost.days.estimate < before.days:
            self._runs[chips] = TriedRun(chips, best.plan, step, cost)

    def _planned(self, chips: int, in_stages: bool, has_options: bool) -> BestMesh:
        """The best plan on so many chips with the question's batch; where a number of chips is given,
        and it does not fit, with the half, quarter and so on that does, down to a sequence of each.
        """
        question, target = self._question, topology_of_chips(self._kind, chips).target
        form = question.form if has_stages(question.form) else without_options(question.form)
        batch = question.sequences_on(chips)
        best = best_mesh(form, target, batch, REMATS, in_stages, has_options)
        while question.chips and not (best.fits or in_stages) and batch >= 2 * chips:
            batch = batch // (2 * chips) * chips
            fewer = best_mesh(form, target, batch, REMATS, has_options=has_options)
            best = fewer if fewer.fits else best
        return best

    def _until(self, counts: list[int], days: float) -> None:
        """Looks from the fewest chips that could keep the deadline at the peak to the first that do."""
        best = None
        for chips in counts:
            if chips < min(self._least / days, counts[-1]) or not (run := self._look(chips)):
                continue
            if run.days <= days:
                return
            if not best or run.days < best.days:
                best = run
            elif chips >= _FURTHER * best.chips:
                return

    def _paid(self, counts: list[int]) -> None:
        """Looks from the fewest chips to those whose MFU is near the best, then from the most down to
        those too few to be faster than the fastest that the budget pays: money need not grow with
        chips. Where it pays none at the peak, further up, for the cheapest.
        """
        first = self._first(counts)
        if self._least > self._payable:
            for chips in counts:
                if chips <= _FURTHER * first:
                    self._look(chips)
            return
        for chips in reversed(counts):
            best = self._best()
            if best and self._is_kept(best) and not self._is_better(chips, best):
                return
            self._look(chips)

    def _first(self, counts: list[int]) -> float:
        """Looks from the fewest chips to the first that fit, and on while more chips take fewer
        chip-days, as the fewest do that hold a batch in many microbatches. Returns the first.
        """
        first, least = math.inf, math.inf
        for chips in counts:
            if not (run := self._look(chips)):
                continue
            first = min(first, chips)
            if run.chip_days > _GAINING * least:
                return first
            least = min(least, run.chip_days)
        return first

    @property
    def _payable(self) -> float:
        """Chip-days that the budget pays."""
        return (self._question.budget or math.inf) / (24 * (self._price or 1.0))

    def _is_better(self, chips: int, best: TriedRun) -> bool:
        """Returns True if so many chips may be better than a run that meets the question: at their peak
        by a deadline, a little above the best MFU by a budget.
        """
        if self._question.days:
            return chips < best.chips
        return max(self._least, _NEAR * self._fewest) / chips < best.days

    def _in_stages(self, counts: list[int]) -> None:
        """Tries pipelines: by a deadline from the fewest chips that may keep it to the first that do, else
        from the most chips down.
        """
        question, tried = self._question, 0
        if has_stages(question.form) or not 0 < self._least < self._payable:
            return
        days = question.days or math.inf
        for chips in counts if question.days else reversed(counts):
            best = self._best()
            is_met = best is not None and self._is_met(best)
            if best and is_met and not question.chips and not self._is_better(chips, best):
                continue
            if tried == (_MOST_BY_DEADLINE if question.days else _MOST_IN_STAGES):
                return
            near = _NEAR * self._fewest if self._runs else 0.0
            is_hopeless = days < max(self._least, near) / chips
            if is_hopeless or not self._may_be_in_stages(chips):
                continue
            tried += 1
            self._estimate(chips, in_stages=True)

    def _may_be_in_stages(self, chips: int) -> bool:
        """Returns True if chips of several slices wait long for links, or hold no plan without stages."""
        if has_stages(self._question.form) or topology_of_chips(self._kind, chips).slices == 1:
            return False
        run = self._look(chips)
        if run and _waits(run) and chips not in self._optioned:  # as of a given number of chips
            self._estimate(chips, has_options=True)
            run = self._runs[chips]
        return run is None or _waits(run)

    def _best(self) -> TriedRun | None:
        """Of runs that meet the question the fewest chips by a deadline, else the fastest, by a budget of
        those that keep it with all of their range where there are some; where none meets it, the
        cheapest by a budget, else the fastest.
        """
        question, runs = self._question, [*self._runs.values()]
        met = [each for each in runs if self._is_met(each)]
        if met and question.days:
            return min(met, key=lambda each: each.chips)
        if question.budget:
            met = [each for each in met if self._is_kept(each)] or met
        if question.budget and not met:
            return min(runs, key=lambda each: (each.run.money or 0.0, each.chips), default=None)
        return min(met or runs, key=lambda each: (each.days, each.chips), default=None)


def _waits(run: TriedRun) -> bool:
    shares = run.step.shares_s
    waits = sum(s for name, s in shares.items() if name.startswith("wait: "))
    return waits > _WAITS * sum(shares.values())


COUNTED = "powers of two, three times these, and divisors of the batch, where they form a slice"


def _counts(kind: str, batch: float) -> Iterator[int]:
    """Numbers of chips that are tried, ascending: `COUNTED`."""
    powers = {
        odd << power
        for odd in (1, 3)
        for power in range(MOST_CHIPS.bit_length())
        if odd << power <= MOST_CHIPS
    }
    sequences = int(batch)
    divisors = {
        chips for chips in range(1, min(sequences, MOST_CHIPS) + 1) if sequences % chips == 0
    }
    for chips in sorted(powers | divisors):
        try:
            topology_of_chips(kind, chips)
        except RequestError:
            continue
        yield chips

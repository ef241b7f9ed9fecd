"""The curves of a sweep: step time, MFU, memory, exposed communication and efficiency, point by
point.
"""

import csv
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from spmd_core.base import mesh_text, sums_by_key
from spmd_core.facts import LONGER, Estimate, Prediction, StoredFact
from spmd_core.plan import Plan
from spmd_core.results import StrategyResult, safe_cell
from spmd_core.sweeps.sweep import SweepPoint

State = Literal[
    "refused",
    "too large",
    "not compiled",
    "waiting",
    "running",
    "failed",
    "does not fit",
    "predicted",
]


STRAGGLERS = "wait: slices"  # a share of a step, of published runs: no compiler knows it
# if they have numbers, these are an estimate
ESTIMATED: tuple[State, ...] = ("not compiled", "waiting", "running", "failed")
MAX_WORDS = 400  # characters of why a point failed; its run has all of them


@dataclass(frozen=True, slots=True)
class Numbers:
    """What a curve needs of a prediction. Seconds per step, bytes per device; None where the
    program does not fit or is no model's.
    """

    fits: bool
    low_s: float | None = None
    step_s: float | None = None
    high_s: float | None = None
    mfu: float | None = None
    tokens_per_s_per_chip: float | None = None
    peak_bytes: int | None = None
    host_bytes: int | None = None
    # collective -> seconds that the step waits for it
    exposed_s: dict[str, float] = field(default_factory=dict)
    binds: str | None = None
    chip_seconds: float | None = None
    # kind of time, or mesh axes waited for -> seconds of the step
    shares_s: dict[str, float] = field(default_factory=dict)
    fit: str = ""  # the verdict on memory, as a prediction has it
    doubt: StoredFact | None = None  # why an estimate may be too short

    @property
    def time(self) -> Estimate | None:
        """The time of a step with its interval, or without one where none is known."""
        if not (step := self.step_s):
            return None
        return Estimate(low=self.low_s or step, estimate=step, high=self.high_s or step)

    @property
    def straggling(self) -> float:
        """The share of the step that is assumed to wait for stragglers."""
        return self.shares_s.get(STRAGGLERS, 0.0) / (sum(self.shares_s.values()) or 1.0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a point stands: `numbers` once it is predicted, `words` where it failed or has to wait
    for more than its turn, `run` where one is stored or under way.
    """

    state: State
    numbers: Numbers | None = None
    run: str | None = None
    words: str | None = None


# `bench.published_steps`: efficiencies of one plan and batch per chip on more chips, over those of
# their instant estimates, of how many; from the least to the most
EFFICIENCIES, PUBLISHED_SPAN = 44, (0.87, 1.09)


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One point of the curves; None where there is none."""

    point: SweepPoint
    outcome: Outcome
    exposed_share: float | None = None  # of the step
    efficiency: float | None = None
    # `PUBLISHED_SPAN` times it, for estimates of one plan and batch per chip; of any other no range is
    # known: errors of two steps of one model are largely common, so their own ranges are too wide
    efficiency_span: tuple[float, float] | None = None
    efficiency_without_stragglers: float | None = None

    @property
    def numbers(self) -> Numbers:
        """The numbers, empty where there are none."""
        return self.outcome.numbers or Numbers(fits=False)

    @property
    def is_estimated(self) -> bool:
        """Whether its numbers are the instant estimate's: nothing was compiled yet."""
        return self.outcome.numbers is not None and self.outcome.state in ESTIMATED

    @property
    def mfu_causal(self) -> float | None:
        """MFU without the pairs that a causal mask leaves out; None of what is no decoder."""
        plan, mfu = self.point.experiment and self.point.experiment.plan, self.numbers.mfu
        return mfu * plan.causal_share if plan and mfu is not None else None

    @property
    def shown_mfu(self) -> tuple[float, float, float] | None:
        """The MFU that is shown first, causal where it is known: of the step, and at the slowest and
        at the fastest of its interval.
        """
        numbers = self.numbers
        mfu = self.numbers.mfu if self.mfu_causal is None else self.mfu_causal
        if mfu is None or not numbers.step_s or not numbers.low_s or not numbers.high_s:
            return None
        work = mfu * numbers.step_s
        return mfu, work / numbers.high_s, work / numbers.low_s

    @property
    def exposed_most(self) -> str | None:
        """The collective that the step waits for most."""
        exposed = self.numbers.exposed_s
        return max(exposed, key=lambda kind: exposed[kind]) if exposed else None


def numbers_of(prediction: Prediction) -> Numbers:
    """The numbers of a prediction, without its timeline and buffers."""
    fit = prediction.fit
    if not prediction.is_timed:
        prediction = prediction.without_time
    exposed = sums_by_key((each.kind, each.exposed_in_all_s) for each in prediction.collectives)
    time = prediction.predicted_s
    memory = prediction.memory_bytes
    if memory.peak is not None:
        peak = memory.peak
    elif memory.missing > 1:
        peak = memory.capacity + memory.missing
    else:
        peak = None
    return Numbers(
        prediction.fits,
        time.low if time else None,
        time.estimate if time else None,
        time.high if time else None,
        prediction.mfu,
        prediction.tokens_per_s_per_chip,
        peak,
        memory.host,
        {kind: s for kind, s in exposed.items() if s > 0},
        prediction.binds,
        prediction.chip_seconds,
        prediction.shares_by_axis,
        fit,
        next((each for each in prediction.facts or () if each.kind in LONGER), None),
    )


def outcome_of(run: str, strategy: StrategyResult) -> Outcome:
    """The outcome of a stored strategy of a run."""
    if strategy.status != "ok" or strategy.prediction is None:
        words = strategy.error.message if strategy.error else "the run has no prediction"
        return failure(words, run)
    return Outcome(
        "predicted" if strategy.prediction.fits else "does not fit",
        numbers_of(strategy.prediction),
        run,
    )


def failure(words: str, run: str | None = None) -> Outcome:
    """A point that failed, with the beginning of why: a compiler's message may list every device."""
    line = " ".join(words.split())
    return Outcome(
        "failed", None, run, line if len(line) <= MAX_WORDS else f"{line[: MAX_WORDS - 1]}…"
    )


def curves(points: Sequence[SweepPoint], outcomes: Sequence[Outcome]) -> tuple[SweepRow, ...]:
    """A row for each point.

    Exposed share: seconds of collectives that nothing hides, over the estimate of the step.
    Efficiency: useful work per chip and second over that of the point with the fewest chips that has
    a time of the same kind, compiled or estimated (the first, where several have as few; none where
    it is the only one of its kind):
    (work / (chips x step)) / (work0 / (chips0 x step0)). The work of a decoder's step is its
    tokens: with longer sequences it has more FLOPs for each of them. That of any other workload is
    its FLOPs. Weak scaling makes it step0 / step, strong scaling (chips0 x step0) / (chips x step).
    Without stragglers it compares steps less the seconds that are assumed to wait for them.
    """
    speeds = [
        _work_per_chip_s(point, outcome.numbers)
        for point, outcome in zip(points, outcomes, strict=True)
    ]
    rows = []
    for point, outcome, speed in zip(points, outcomes, speeds, strict=True):
        own = [
            (points[at].chips, at)
            for at, each in enumerate(speeds)
            if each and (outcomes[at].state in ESTIMATED) is (outcome.state in ESTIMATED)
        ]
        row = SweepRow(point, outcome)
        if row.numbers.step_s:
            exposed = sum(row.numbers.exposed_s.values()) / row.numbers.step_s
            row = replace(row, exposed_share=exposed)
        is_alone = len(own) == 1 < len([each for each in speeds if each])
        if speed and not is_alone:
            at = min(own)[1]
            first = SweepRow(points[at], outcomes[at])
            row = _compared(row, speed / (speeds[at] or math.inf), first)
        rows.append(row)
    return tuple(rows)


def _compared(row: SweepRow, efficiency: float, first: SweepRow) -> SweepRow:
    kept = (1 - first.numbers.straggling) / (1 - row.numbers.straggling)
    is_guess = first.is_estimated and row.is_estimated
    is_known = is_guess and _is_published(first.point, row.point)
    low, high = (efficiency * end for end in PUBLISHED_SPAN)
    span = (low, high) if is_known else None
    return replace(
        row,
        efficiency=efficiency,
        efficiency_span=span,
        efficiency_without_stragglers=efficiency * kept,
    )


def _is_published(first: SweepPoint, point: SweepPoint) -> bool:
    """Returns True if the points differ as the pairs of `PUBLISHED_SPAN` do: in more chips, mesh and batch."""
    one, other = (each.experiment.plan if each.experiment else None for each in (first, point))
    if one is None or other is None:
        return False
    return _kept(one) == _kept(other) and first.chips < point.chips


def _kept(plan: Plan) -> tuple[object, ...]:
    per_chip = plan.topology.chip, plan.size, plan.sequence, plan.batch_per_device
    return *per_chip, plan.remat, frozenset(plan.save), frozenset(plan.offload)


def _work_per_chip_s(point: SweepPoint, numbers: Numbers | None) -> float | None:
    if numbers is None or not numbers.step_s or point.experiment is None:
        return None
    if plan := point.experiment.plan:
        return plan.tokens / point.chips / numbers.step_s
    return (
        point.experiment.what.flops(point.experiment.sizes) / point.chips / numbers.step_s or None
    )


def row_json(row: SweepRow) -> dict[str, Any]:
    """A row as the command line and the CSV write it; what is not known is None."""
    point, outcome, numbers = row.point, row.outcome, row.numbers
    experiment = point.experiment
    fits = False if point.is_too_large else None
    return {
        "value": point.value,
        "state": outcome.state,
        "fits": outcome.numbers.fits if outcome.numbers else fits,
        "target": experiment.target if experiment else None,
        "mesh": mesh_text(experiment.mesh, ",") if experiment else None,
        "batch": experiment.sizes.get("batch") if experiment else None,
        "sequence": experiment.sizes.get("sequence") if experiment else None,
        "chips": point.chips or None,
        "slices": point.slices if experiment else None,
        "step_low_s": numbers.low_s,
        "step_s": numbers.step_s,
        "step_high_s": numbers.high_s,
        "mfu": numbers.mfu,
        "mfu_causal": row.mfu_causal,
        "tokens_per_s_per_chip": numbers.tokens_per_s_per_chip,
        "efficiency": row.efficiency,
        "efficiency_low": row.efficiency_span and row.efficiency_span[0],
        "efficiency_high": row.efficiency_span and row.efficiency_span[1],
        "efficiency_without_stragglers": row.efficiency_without_stragglers,
        "peak_bytes": numbers.peak_bytes,
        "expected_bytes": point.expected_bytes,
        "capacity_bytes": point.capacity_bytes or None,
        "host_bytes": point.host_bytes if numbers.host_bytes is None else numbers.host_bytes,
        "host_capacity_bytes": point.host_capacity_bytes or None,
        "chip_seconds": numbers.chip_seconds,
        "exposed_share": row.exposed_share,
        "exposed_most": row.exposed_most,
        "binds": numbers.binds,
        "run": outcome.run,
        "plans_tried": point.plans_tried,
        "words": point.refusal or "; ".join(filter(None, (point.instead, outcome.words))) or None,
    }


def csv_text(
    rows: Sequence[SweepRow], more: Callable[[SweepRow], dict[str, Any]] = lambda row: {}
) -> str:
    """The rows as CSV with a head, with `more` of each behind; empty cells where nothing is
    known.
    """
    written = io.StringIO()
    listed = [row_json(row) | more(row) for row in rows]
    writer = csv.DictWriter(
        written, fieldnames=list(listed[0]) if listed else ["value"], lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows({name: safe_cell(value) for name, value in row.items()} for row in listed)
    return written.getvalue()

"""Sheets of the strategies of a result: time, memory, communication, values, and how each was measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from spmd_core.base import bytes_text, numbered, seconds_text
from spmd_core.facts import PredictedMemory, possible, sent_per_step
from spmd_core.results import MemoryBytes, Result, StrategyResult
from spmd_core.sheets import Cell, Column, Place, Sheet, Table, between, number, seconds, size, text
from spmd_core.surveys import studies
from spmd_core.terms import (
    StepCost,
    cost_of,
    money_text,
    row_title,
    share_text,
    title,
)
from spmd_core.words import bound_shares, collectives_words, off_words, timed_in, verdict_words


@dataclass(frozen=True, slots=True)
class StrategyRow:
    """A strategy of a result; of a study a variant under a strategy.

    Attributes:
      name: its key in `result.strategies`.
      against: its ratio to the best row in words, with the verdict.
      price: dollars per chip-hour.
      is_unsharded: True for the second timing of `constrained`, whose operands are resharded in
        each call.
    """

    result: Result
    name: str
    against: str | None = None
    price: float | None = None
    is_unsharded: bool = False

    @property
    def outcome(self) -> StrategyResult:
        """What was measured or predicted of it."""
        return self.result.strategies[self.name]

    @property
    def measured_s(self) -> float | None:
        """Median seconds per call."""
        again = self.outcome.from_unsharded
        if self.is_unsharded:
            return again.median_s if again else None
        return self.outcome.median_s

    @property
    def is_predicted(self) -> bool:
        """True if its time is an estimate: nothing was executed."""
        return self.measured_s is None and self.outcome.predicted_s is not None

    @property
    def seconds(self) -> float | None:
        """Median seconds per call, else the estimate."""
        time = self.outcome.predicted_s
        return time.estimate if self.is_predicted and time else self.measured_s

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95% interval of the median, else that of the estimate."""
        time = self.outcome.predicted_s
        if self.is_predicted and time:
            return time.low, time.high
        return None if self.is_unsharded else self.outcome.ci95_s

    @property
    def memory(self) -> MemoryBytes | PredictedMemory | None:
        """Bytes per device, by the compiler's account."""
        if self.is_unsharded:
            return None
        predicted = self.outcome.prediction
        return predicted.memory_bytes if predicted else self.outcome.memory_bytes

    @property
    def cost(self) -> StepCost:
        """What a predicted step costs."""
        predicted = self.outcome.prediction
        return cost_of(predicted, self.price) if predicted else StepCost()


def peak_bytes(outcome: StrategyResult | None) -> int | None:
    """Returns peak bytes per device; None where they are not known."""
    if outcome is None:
        return None
    if outcome.prediction:
        return outcome.prediction.memory_bytes.peak
    return outcome.memory_bytes.peak if outcome.memory_bytes else None


def sent(outcome: StrategyResult | None) -> int | None:
    """Returns the bytes that a device sends in a step; None where a program, or a count of its, is
    not known.
    """
    return sent_per_step(outcome.collectives) if outcome else None


def strategy_words(row: StrategyRow) -> str | None:
    """Returns a row's name beside its variant; None of a training step, and of a study with one
    strategy, which its answer names.
    """
    experiment = row.result.experiment
    if experiment.variants:
        alike = len({each.strategy for each in experiment.rows}) == 1
        return None if alike else title(row.result.row(row.name).strategy)
    if experiment.plan and len(row.result.strategies) == 1:
        return None
    shown = row_title(row.result, row.name)
    return f"{shown}, from unsharded operands" if row.is_unsharded else shown


def _time(row: StrategyRow) -> Cell | str | None:
    if row.seconds is None:
        predicted = row.outcome.prediction
        return "does not fit" if predicted and not predicted.fits else None
    # of a row that fewer processes timed, and of an estimate, beside the number
    kind = ", predicted" if row.is_predicted else timed_in(row.result, row.name)
    return Cell(f"{seconds_text(row.seconds)}{kind}", row.seconds)


def _fits(row: StrategyRow) -> str | None:
    predicted = row.outcome.prediction
    if predicted is None:
        return None
    missing, host = predicted.memory_bytes.missing, predicted.host_missing
    over = f", {bytes_text(missing)} too much" if missing else ""
    over += f", {bytes_text(host)} of host memory too much" if host else ""
    return "yes" if predicted.fits else f"no{over}"


def host_bytes(row: StrategyRow) -> int | None:
    """Returns bytes in host memory, where something is placed there: a TPU program of no offload
    keeps a few KiB of constants.
    """
    experiment = row.result.row(row.name).experiment
    offloads = bool(experiment.plan and experiment.plan.offload)
    is_placed = bool(experiment.memory or experiment.what.memory) or offloads
    return (row.memory and row.memory.host) or None if is_placed else None


def _mfu(row: StrategyRow) -> float | None:
    return None if row.is_unsharded else mfu_of(row.outcome)


def _tokens(row: StrategyRow) -> float | None:
    """Tokens of a training step; a serving step is a program, of which an engine makes others."""
    known = row.outcome.prediction
    is_served = row.result.row(row.name).experiment.served is not None
    return None if is_served else known and known.tokens_per_s_per_chip


def _causal(row: StrategyRow) -> float | None:
    return None if row.is_unsharded else mfu_of(row.outcome, causal=True)


def _of_program(of: Callable[[StrategyResult], Any]) -> Callable[[StrategyRow], Any]:
    """What a row's collectives give; None where they are not known, or are those of the row above."""
    return lambda row: (
        None if row.is_unsharded or row.outcome.collectives is None else of(row.outcome)
    )


STRATEGIES = Sheet[StrategyRow](
    (
        text(
            "Variant",
            lambda row: (
                row.result.row(row.name).variant or None
                if row.result.baselines != {row.name}
                else "every variant"
            ),
        ),
        text("Strategy", strategy_words, "screen", "study", "document"),
        text(
            "Strategy",
            lambda row: (
                shown
                if (shown := strategy_words(row))
                in (None, own := row.result.row(row.name).strategy)
                else f"{shown} ({own})"
            ),
            "terminal",
        ),
        Column("Time", _time, is_kept=True),
        between("95% interval", lambda row: None if row.is_predicted else row.interval)[0],
        between("Interval", lambda row: row.interval if row.is_predicted else None)[0],
        *between("Interval", lambda row: row.interval)[1:],
        seconds(
            "Time per token",
            lambda row: (
                row.seconds / tokens
                if row.seconds is not None and (tokens := row.result.tokens(row.name)) > 1
                else None
            ),
        ),
        text(
            "Paired ratio (99%)",
            lambda row: None if row.is_predicted else row.against,
            "screen",
            "study",
            "terminal",
        ),
        text("Paired ratio", lambda row: None if row.is_predicted else row.against, "document"),
        text("Ratio of estimates", lambda row: row.against if row.is_predicted else None),
        text(
            "Timed in",
            lambda row: (
                numbered(row.outcome.processes, "process")
                if row.outcome.median_s is not None
                and not row.is_unsharded
                and len(
                    {each.processes for each in row.result.strategies.values() if each.median_s}
                )
                > 1
                else None
            ),
            "document",
        ),
        number("GB/s", lambda row: (row.outcome.bytes_per_s or 0) / 1e9 or None),
        text(
            "Predicted",
            lambda row: (
                seconds_text(time.estimate)
                + (
                    ""
                    if (error := row.outcome.prediction_error) is None
                    else f", {off_words(error)}"
                )
                if (time := row.outcome.predicted_s) and not (row.is_predicted or row.is_unsharded)
                else None
            ),
        ),
        text(
            "Bound",
            lambda row: (
                bound_shares(predicted.shares_by_axis)
                if (predicted := row.outcome.prediction) and row.is_predicted
                else None
            ),
        ),
        seconds(
            "Exposed communication",
            lambda row: (
                sum(each.exposed_in_all_s for each in predicted.collectives)
                if (predicted := row.outcome.prediction) and row.is_predicted
                else None
            ),
            "screen",
            "document",
        ),
        text("Fits", _fits),
        size("Peak per device", lambda row: row.memory and row.memory.peak),
        size(
            "Memory of a device",
            lambda row: row.outcome.prediction and row.outcome.prediction.memory_bytes.capacity,
            "terminal",
            "document",
        ),
        size("Host memory per device", host_bytes, "terminal", "document"),
        text("Communication", _of_program(studies.communication), "study"),
        text("Collectives", _of_program(collectives_words), "terminal"),
        size("Sent per device", _of_program(sent), "document"),
        number("Chip-seconds", lambda row: row.cost.chip_seconds),
        Column("Cost", lambda row: row.cost.money_per_step, money_text),
        number("Tokens/s per chip", _tokens),
        Column("Causal MFU", _causal, share_text),
        Column(
            "MFU",
            lambda row: _mfu(row) if _causal(row) is None else None,
            share_text,
            ("screen", "study", "terminal"),
        ),
        Column("MFU", _mfu, share_text, ("document",)),
        seconds(
            "Compile",
            lambda row: None if row.is_unsharded else row.outcome.phases_s.compile,
            "terminal",
        ),
        text(
            "Values",
            lambda row: (
                verdict_words(row.outcome)
                if row.outcome.prediction is None or row.outcome.status != "ok"
                else None
            ),
        ),
        number("Relative error", lambda row: row.outcome.max_rel_error, "terminal", "document"),
        # Add a column above this line.
    )
)


def strategy_rows(result: Result, price: float | None = None) -> Iterator[StrategyRow]:
    """Yields the rows of a result, the fastest first; a second timing of a strategy follows it."""
    against = studies.against(result)
    for name, outcome in result.ordered:
        yield StrategyRow(result, name, against.get(name), price)
        if outcome.from_unsharded is not None:
            yield StrategyRow(result, name, is_unsharded=True)


def strategies_table(result: Result, place: Place, price: float | None = None) -> Table:
    """Returns the rows of a result for a renderer. `price`: dollars per chip-hour."""
    return STRATEGIES.table(strategy_rows(result, price), place)


def mfu_of(outcome: StrategyResult, causal: bool = False) -> float | None:
    """Returns the MFU of a row, or its causal MFU: FLOPs of the computation over what its devices could do in its time;
    None where the peak or the time is not known.

    The peak is a chip's in bfloat16; of what was measured on devices without a data sheet, the
    matmul rate of their calibration.
    """
    mfu = None
    if predicted := outcome.prediction:
        mfu = predicted.mfu_causal if causal else predicted.mfu
    if outcome.median_s is not None:
        roofs = outcome.roofline
        if mfu is not None and outcome.predicted_s:  # that of the same program in another time
            mfu *= outcome.predicted_s.estimate / outcome.median_s
        else:
            mfu = roofs.mfu if roofs and not causal else None
    return possible(mfu) or None

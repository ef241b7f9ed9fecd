"""Sheets of how the strategies of a result were compiled, measured and judged."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from spmd_core.answers.strategies import StrategyRow, host_bytes
from spmd_core.base import count_text, seconds_text
from spmd_core.results import HostTime, Result, StrategyResult
from spmd_core.sheets import Column, Sheet, Table, count, number, seconds, size, text
from spmd_core.terms import row_title
from spmd_core.words import parts, verdict_words

_MOST_SAMPLES = 2_000  # in all: a report is no archive


def _name(row: StrategyRow) -> str:
    return row_title(row.result, row.name)


_STRATEGY = text("Strategy", _name)


def _rows(result: Result, has: Callable[[StrategyResult], object]) -> Iterator[StrategyRow]:
    return (StrategyRow(result, name) for name, outcome in result.ordered if has(outcome))


MEASURING = Sheet[StrategyRow](
    (
        _STRATEGY,
        text(
            "Samples",
            lambda row: " + ".join(
                count_text(len(each))
                for each in (row.outcome.samples_s, row.outcome.remeasured_s)
                if each
            ),
        ),
        count("Calls per sample", lambda row: row.outcome.calls_per_sample),
        count("Outliers, kept", lambda row: len(row.outcome.outliers)),
        text(
            "Spread (inter-quartile range)",
            lambda row: (
                f"{seconds_text(iqr)} ({iqr / median:.0%})"
                if (iqr := row.outcome.iqr_s) is not None and (median := row.outcome.median_s)
                else None
            ),
        ),
    )
)


def measuring_table(result: Result) -> Table:
    """Returns samples, calls in each, outliers (flagged, never dropped) and spread by strategy."""
    return MEASURING.table(_rows(result, lambda each: each.samples_s), "screen")


PHASES = Sheet[StrategyRow](
    (
        _STRATEGY,
        seconds("Trace", lambda row: row.outcome.phases_s.trace),
        seconds("Lower", lambda row: row.outcome.phases_s.lower),
        seconds("Compile", lambda row: row.outcome.phases_s.compile),
        seconds("First run", lambda row: row.outcome.phases_s.first_run),
        seconds("Then, per call", lambda row: row.outcome.median_s),
    )
)


def phases_table(result: Result) -> Table:
    """Returns the seconds of each phase before the steady state, by strategy."""
    return PHASES.table(
        _rows(result, lambda each: any(each.phases_s.model_dump().values())), "screen"
    )


MEMORY = Sheet[StrategyRow](
    (
        _STRATEGY,
        size("Arguments", lambda row: row.memory and row.memory.argument),
        size("Results", lambda row: row.memory and row.memory.output),
        size("Temporaries", lambda row: row.memory and row.memory.temp),
        size("Peak", lambda row: row.memory and row.memory.peak),
        size("Host memory", host_bytes),
    )
)


def memory_table(result: Result) -> Table:
    """Returns bytes per device by the compiler's account, by strategy."""
    return MEMORY.table(_rows(result, lambda each: each.memory_bytes is not None), "screen")


ERRORS = Sheet[StrategyRow](
    (
        _STRATEGY,
        number("Largest error", lambda row: row.outcome.max_abs_error),
        number("Relative to the largest value", lambda row: row.outcome.max_rel_error),
        text(
            "Wrong elements",
            lambda row: (
                (wrong := row.outcome.wrong)
                and f"{count_text(wrong.count)} of {count_text(wrong.of)}"
            ),
        ),
        text("Values", lambda row: verdict_words(row.outcome)),
    )
)


def errors_table(result: Result) -> Table:
    """Returns the error of each strategy against the reference."""
    return ERRORS.table(_rows(result, lambda each: True), "screen")


@dataclass(frozen=True, slots=True)
class _Host:
    row: StrategyRow
    host: HostTime


HOSTS = Sheet[_Host](
    (
        text("Strategy", lambda each: _name(each.row)),
        text("Host", lambda each: each.host.host),
        count("Process", lambda each: each.host.process),
        count("Devices", lambda each: each.host.devices),
        seconds("Its median per call", lambda each: each.host.median_s),
    )
)


def hosts_table(result: Result) -> Table:
    """Returns the median of each host of a run on several, by strategy; the slowest is the result."""
    several = _rows(result, lambda each: len(each.hosts) > 1)
    return HOSTS.table(
        (_Host(row, host) for row in several for host in row.outcome.hosts), "screen"
    )


def roofs_table(result: Result) -> Table:
    """Returns the least time of each strategy by each ceiling of the machine; no rows where it was
    not calibrated.
    """
    rows = list(_rows(result, lambda each: each.roofline and each.predicted_s))
    names = dict.fromkeys(
        name for row in rows if row.outcome.roofline for name in row.outcome.roofline.roofs_s
    )

    def roof(name: str) -> Column[StrategyRow]:
        return seconds(
            f"{name.capitalize()}, at least",
            lambda row: row.outcome.roofline and row.outcome.roofline.roofs_s.get(name),
        )

    sheet = Sheet[StrategyRow](
        (
            _STRATEGY,
            seconds("Measured", lambda row: row.outcome.median_s),
            seconds(
                "Expected", lambda row: row.outcome.predicted_s and row.outcome.predicted_s.estimate
            ),
            *map(roof, names),
            text("Bound by", lambda row: row.outcome.roofline and row.outcome.roofline.binds),
            Column(
                "Share reached",
                lambda row: row.outcome.roofline and row.outcome.roofline.share,
                "{:.0%}".format,
            ),
        )
    )
    return sheet.table(rows, "screen")


def parts_table(result: Result) -> Table:
    """Returns the seconds of a predicted step by what the chip does in them, by strategy."""
    rows = list(_rows(result, lambda each: each.prediction and each.predicted_s))
    shares = {row.name: parts(row.outcome.prediction) for row in rows if row.outcome.prediction}
    names = dict.fromkeys(name for each in shares.values() for name in each)

    def part(name: str) -> Column[StrategyRow]:
        return seconds(name, lambda row: shares[row.name].get(name))

    return Sheet[StrategyRow]((_STRATEGY, *map(part, names))).table(rows, "document")


def samples_table(result: Result) -> Table:
    """Returns each sample in seconds: a row for each round, at most 2,000 samples in all; the second
    timing of `constrained` has a column of its own.
    """
    timed = {
        row_title(result, name): each.samples_s + each.remeasured_s
        for name, each in result.ordered
        if each.samples_s
    }
    timed |= {
        f"{row_title(result, name)}, from unsharded": each.from_unsharded.samples_s
        for name, each in result.ordered
        if each.from_unsharded is not None
    }
    rounds = max(map(len, timed.values()), default=0)
    most = min(rounds, max(1, _MOST_SAMPLES // max(1, len(timed))))

    def sample(name: str) -> Column[int]:
        return seconds(name, lambda at: timed[name][at] if at < len(timed[name]) else None)

    number_of_round: Column[int] = count("Round", lambda at: at + 1)
    return Sheet[int]((number_of_round, *map(sample, timed))).table(range(most), "document")


def series_table(result: Result) -> Table:
    """Returns the values of each step of training runs, at most 200 steps."""
    rows = [
        (StrategyRow(result, name), at)
        for name, outcome in result.ordered
        for at in range(min(200, max(map(len, outcome.series.values()), default=0)))
    ]
    labels = dict.fromkeys(label for row, _ in rows for label in row.outcome.series)

    def values(label: str) -> Column[tuple[StrategyRow, int]]:
        def value(step: tuple[StrategyRow, int]) -> float | None:
            row, at = step
            own = row.outcome.series.get(label, ())
            return own[at] if at < len(own) else None

        return Column(label.replace("_", " "), value, "{:.4g}".format)

    strategy: Column[tuple[StrategyRow, int]] = text("Strategy", lambda step: _name(step[0]))
    number_of_step: Column[tuple[StrategyRow, int]] = count("Step", lambda step: step[1] + 1)
    return Sheet((strategy, number_of_step, *map(values, labels))).table(rows, "document")


# the tables of how a result was measured, by what they are about
DETAILS: Mapping[str, Callable[[Result], Table]] = {
    "errors": errors_table,
    "hosts": hosts_table,
    "measuring": measuring_table,
    "memory": memory_table,
    "roofs": roofs_table,
}

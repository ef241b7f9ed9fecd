"""Tables and charts of one result: every number with its exact value."""

from spmd_core.base import number_text
from spmd_core.program import SMALL_WORDS, CollectiveRow, rows
from spmd_core.reports.comparison_document import communicated, peak_bytes, strategy_cell
from spmd_core.reports.document import (
    NONE,
    Bar,
    Cell,
    Chart,
    Table,
    bytes_cell,
    reported,
    seconds_cell,
    table_of,
)
from spmd_core.results import Result, StrategyResult
from spmd_core.words import (
    interval_words,
    parts,
    processes_words,
    rate_words,
    row_title,
    studies,
    timed_in,
    title,
    value_words,
    verdict_words,
    why_words,
)

_MOST_SAMPLES = 2_000  # in all: a report is no archive
_MOST_BARS = 40


def strategies_table(result: Result) -> Table:
    """A row for each strategy, of a study for each variant and strategy, the fastest first."""
    against = studies.against(result)
    is_uneven = any(timed_in(result, name) for name in result.strategies)
    return table_of(
        [
            _row(result, name, outcome)
            | {
                "Timed in": Cell(
                    processes_words(outcome.processes)
                    if is_uneven and outcome.median_s is not None
                    else NONE
                )
            }
            | {"Against the fastest": Cell(against.get(name, NONE))}
            for name, outcome in result.ordered
        ]
    )


def _row(result: Result, name: str, outcome: StrategyResult) -> dict[str, Cell]:
    time = outcome.predicted_s
    low, high = outcome.ci95_s or (None, None)
    prediction = outcome.prediction
    capacity = prediction.memory_bytes.capacity if prediction else None
    mfu = prediction.mfu if prediction else None
    per_chip = prediction.tokens_per_s_per_chip if prediction else None
    return {
        "Variant": Cell(studies.variant_of(result, name) or NONE),
        "Strategy": strategy_cell(result, name)
        if not result.experiment.variants
        else Cell(title(result.row(name).strategy)),
        "Median": seconds_cell(outcome.median_s),
        "95 % low": seconds_cell(low),
        "95 % high": seconds_cell(high),
        "Predicted": seconds_cell(time and time.estimate),
        "Predicted low": seconds_cell(time and time.low),
        "Predicted high": seconds_cell(time and time.high),
        "Tokens/s per chip": Cell(number_text(per_chip), per_chip) if per_chip else Cell(NONE),
        "MFU": Cell(f"{mfu:.1%}", mfu) if mfu else Cell(NONE),
        "Peak per device": bytes_cell(peak_bytes(outcome)),
        "Memory of a device": bytes_cell(capacity),
        "Communicated per device": bytes_cell(communicated(outcome)),
        "Fits": Cell(("yes" if prediction.fits else "no") if prediction else NONE),
        "Values": Cell(NONE if prediction else verdict_words(outcome)),
    }


def times_chart(result: Result) -> Chart | None:
    """Median or estimate of each row with its interval, and every sample as a tick."""
    bars = []
    for name, outcome in result.ordered:
        if outcome.median_s is not None:
            low, high = outcome.ci95_s or (None, None)
            bars.append(
                Bar(row_title(result, name), outcome.median_s, low, high, outcome.samples_s)
            )
        elif time := outcome.predicted_s:
            bars.append(
                Bar(
                    f"{row_title(result, name)}, predicted",
                    time.estimate,
                    time.low,
                    time.high,
                    (),
                    1,
                )
            )
    many = len(bars) > _MOST_BARS
    what = f"Time of the {_MOST_BARS} fastest rows" if many else "Time per call or step"
    return Chart(f"{what}, with its interval", tuple(bars[:_MOST_BARS])) if bars else None


def parts_table(result: Result) -> Table:
    """Seconds of a predicted step by what the chip does in them."""
    return table_of(
        [
            {"Strategy": strategy_cell(result, name)}
            | {part: seconds_cell(seconds) for part, seconds in parts(outcome.prediction).items()}
            for name, outcome in result.ordered
            if outcome.prediction and outcome.predicted_s
        ]
    )


def collectives_table(result: Result) -> Table:
    """The collectives of each program, in the rows of the screens: count, bytes per device, seconds,
    and why they are there.
    """
    return table_of(
        [
            {"Strategy": strategy_cell(result, name)} | _collective(row)
            for name, outcome in result.ordered
            for row in rows(outcome.collectives or ())
        ]
    )


def _collective(row: CollectiveRow) -> dict[str, Cell]:
    sizes, lines = ({getattr(each, of) for each in row.members} for of in ("bytes", "source"))
    over = f" over {' and '.join(row.axes)}" if row.axes else ""
    why = SMALL_WORDS if row.rest else why_words(row.first)
    line = f" ({row.first.source})" if row.first.source and len(lines) == 1 else ""
    return {
        "Collective": Cell(f"{row.what}{over}"),
        "Count": Cell(NONE if row.count is None else f"{row.count:,}", row.count),
        "Bytes": Cell(row.size) if len(sizes) > 1 else bytes_cell(row.first.bytes),
        "In total": bytes_cell(row.bytes_total),
        "Time in total": seconds_cell(row.seconds or None),
        "Exposed in total": seconds_cell(row.exposed_s if row.seconds else None),
        "Why": Cell(reported(f"{why or NONE}{line}")),
    }


def phases_table(result: Result) -> Table:
    """Seconds of every phase before the steady state."""
    return table_of(
        [
            {"Strategy": strategy_cell(result, name)}
            | {
                "Trace": seconds_cell(outcome.phases_s.trace),
                "Lower": seconds_cell(outcome.phases_s.lower),
                "Compile": seconds_cell(outcome.phases_s.compile),
                "First run": seconds_cell(outcome.phases_s.first_run),
            }
            for name, outcome in result.ordered
            if any(outcome.phases_s.model_dump().values())
        ]
    )


def ceilings_table(result: Result) -> Table:
    """The ceilings of a calibration, each in its unit."""
    return table_of(
        [
            {
                "Ceiling": Cell(each.title),
                "Value": Cell(value_words(each), each.value),
                "95 % interval": Cell(interval_words(each)),
            }
            for outcome in result.strategies.values()
            for each in outcome.ceilings
        ]
    )


def points_table(result: Result) -> Table:
    """The points of a sweep of collectives."""
    return table_of(
        [
            {
                "Collective": Cell(point.kind),
                "Over": Cell(" and ".join(point.axes)),
                "Bytes": bytes_cell(point.bytes),
                "Time": seconds_cell(point.time_s),
                "Bus bandwidth": Cell(rate_words(point.busbw), point.busbw)
                if point.busbw
                else Cell(NONE),
            }
            for outcome in result.strategies.values()
            for point in outcome.points
        ]
    )


def samples_table(result: Result) -> Table:
    """Every sample of every strategy, by round; the first ones where they are very many."""
    timed = {
        name: each.samples_s + each.remeasured_s for name, each in result.ordered if each.samples_s
    }
    rounds = max(map(len, timed.values()), default=0)
    most = min(rounds, max(1, _MOST_SAMPLES // max(1, len(timed))))
    return table_of(
        [
            {"Round": Cell(str(at + 1))}
            | {
                row_title(result, name): seconds_cell(samples[at] if at < len(samples) else None)
                for name, samples in timed.items()
            }
            for at in range(most)
        ]
    )


def series_table(result: Result) -> Table:
    """Values of each step of training runs, at most 200 steps."""
    return table_of(
        [
            {"Strategy": Cell(row_title(result, name)), "Step": Cell(str(at + 1), at + 1)}
            | {
                label.replace("_", " "): Cell(f"{values[at]:.4g}", values[at])
                for label, values in outcome.series.items()
                if at < len(values)
            }
            for name, outcome in result.ordered
            for at in range(min(200, max(map(len, outcome.series.values()), default=0)))
        ]
    )

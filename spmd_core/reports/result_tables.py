"""Tables and charts of one result: every number with its exact value."""

from spmd_core.answers import NONE, Cell, Table, table_of
from spmd_core.program import SMALL_WORDS, CollectiveRow, rows
from spmd_core.reports.document import Bar, Chart, bytes_cell, reported, seconds_cell
from spmd_core.results import Result
from spmd_core.words import (
    interval_words,
    rate_words,
    row_title,
    value_words,
    why_words,
)

_MOST_BARS = 40


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


def collectives_table(result: Result) -> Table:
    """The collectives of each program, in the rows of the screens: count, bytes per device, seconds,
    and why they are there.
    """
    return table_of(
        [
            {"Strategy": Cell(row_title(result, name))} | _collective(row)
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

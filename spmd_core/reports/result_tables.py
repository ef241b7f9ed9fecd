"""Tables and charts of one result: every number with its exact value."""

from spmd_core.answers import NONE, Cell, Table, table_of
from spmd_core.reports.document import Bar, Chart, bytes_cell, seconds_cell
from spmd_core.results import Result
from spmd_core.words import (
    interval_words,
    rate_words,
    row_title,
    value_words,
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

"""Points, fits and ceilings of a machine as lines of text."""

from collections.abc import Iterator

from spmd_core.bandwidth.known import measured
from spmd_core.commands.table import table
from spmd_core.results.machine import Point
from spmd_core.results.result import Result
from spmd_core.units import bytes_text, seconds_text
from spmd_core.words.bandwidth import (
    DEFINITIONS,
    axes_words,
    fit_words,
    interval_words,
    kind_title,
    rate_words,
    value_words,
)


def of_machine(result: Result) -> list[str]:
    """A row for each point or ceiling, then the fits in words."""
    found = measured(result)
    lines = list(_ceilings(result)) if found.ceilings else []
    if found.points and not found.ceilings:
        lines += table(_points(found.points), numbers=(2, 3, 4, 5, 6))
    if found.fits:
        lines += ["", *map(fit_words, found.fits)]
    return lines + ([f"note: {DEFINITIONS}"] if found.points else [])


def _points(points: tuple[Point, ...]) -> list[tuple[str, ...]]:
    rows = [("collective", "over", "bytes", "time", "algorithm", "bus", "predicted", "values")]
    for point in points:
        right = {True: "right", False: "✗ wrong", None: "–"}[point.correct]
        rows.append((kind_title(point.kind), axes_words(point.axes), bytes_text(point.bytes),
                     seconds_text(point.time_s), rate_words(point.algbw), rate_words(point.busbw),
                     seconds_text(point.predicted_s), point.error or right))
    return rows


def _ceilings(result: Result) -> Iterator[str]:
    rows = [("ceiling", "value", "95 % interval", "data sheet")]
    for each in measured(result).ceilings:
        sheet = each.model_copy(update={"value": each.data_sheet}) if each.data_sheet else None
        rows.append((each.title, value_words(each), interval_words(each),
                     value_words(sheet) if sheet else "–"))
    yield from table(rows, numbers=(1, 2, 3))

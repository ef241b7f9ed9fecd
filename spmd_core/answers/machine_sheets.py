"""Sheets of what a machine reaches: ceilings, points of a sweep of collectives, and their fits."""

from collections.abc import Iterable, Sequence

from spmd_core.answers.training_sheet import Figure
from spmd_core.base import between, seconds_text, span_text
from spmd_core.machine import Target
from spmd_core.results import Ceiling, Point
from spmd_core.roofline import busy_facts, expected_spans
from spmd_core.sheets import Cell, Column, Sheet, Table, seconds, size, text
from spmd_core.terms import (
    Ranges,
    axes_words,
    bandwidths,
    kind_title,
    predicted_rate,
    ranges_of,
    span_at,
    value_words,
)
from spmd_core.words import match_words


def interval_words(ceiling: Ceiling) -> str:
    """The 95% interval of a ceiling."""
    low, high = (ceiling.model_copy(update={"value": value}) for value in ceiling.interval)
    return between(value_words(low), value_words(high))


def _data_sheet(ceiling: Ceiling) -> Cell | None:
    value = ceiling.data_sheet
    if not value:
        return None
    return Cell(value_words(ceiling.model_copy(update={"value": value})), value)


CEILING_ROWS: Sheet[Ceiling] = Sheet(
    (
        text("Ceiling", lambda each: each.title),
        Column("Value", lambda each: Cell(value_words(each), each.value)),
        text("95% interval", interval_words),
        Column("Data sheet", _data_sheet),
    )
)


_FIGURES = {
    "copy": "Copies",
    "matmul_float32": "Matmuls, float32",
    "matmul_bfloat16": "Matmuls, bfloat16",
    "dispatch_mesh": "A call",
}


def ceiling_figures(ceilings: Sequence[Ceiling]) -> list[Figure]:
    """Returns what a device reaches, each with its interval, and how far repeats spread."""
    known = {each.name: each for each in ceilings}
    figures = [
        Figure(title, value_words(known[name]), interval_words(known[name]))
        for name, title in _FIGURES.items()
        if name in known
    ]
    worst = max(each.spread for each in ceilings)
    is_busy = "calibrate again when idle" if busy_facts(ceilings) else "as on an idle machine"
    return [*figures, Figure("Repeats spread", f"{worst:.0%}", is_busy)]


def sweep_points(points: Iterable[Point], target: Target) -> Table:
    """Returns the points of a sweep: of a target that is not attached their predicted times and rates
    as ranges, where such a range is known of their kind.
    """
    known = list(points)
    return _points_sheet(ranges_of(known, expected_spans(target))).table(known, "screen")


def _points_sheet(ranges: Ranges) -> Sheet[Point]:
    return Sheet(
        (
            text("Collective", lambda each: kind_title(each.kind)),
            text("Over", lambda each: axes_words(each.axes)),
            size("Bytes", lambda each: each.bytes),
            seconds("Time", lambda each: each.time_s),
            Column("Predicted", lambda each: _time(each, ranges)),
            Column("Bus bandwidth", lambda each: _rate(each, ranges, bandwidths(each)[1])),
            Column("Algorithm bandwidth", lambda each: _rate(each, ranges, bandwidths(each)[0])),
            text("Values", lambda each: each.error or match_words(each.correct, "")),
        )
    )


def _time(point: Point, ranges: Ranges) -> Cell | None:
    known, span = point.predicted_s, span_at(point, ranges)
    if known is None:
        return None
    words = span_text(*(known * each for each in span)) if span else seconds_text(known)
    return Cell(words, known)


def _rate(point: Point, ranges: Ranges, rate: float | None) -> Cell | None:
    if rate is None:
        return None
    return Cell(predicted_rate(rate, span_at(point, ranges)), rate)

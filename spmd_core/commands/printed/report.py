"""A result as text: the answer first, then a row per strategy, then what a reader of the numbers
needs to know."""

from collections.abc import Iterator

from spmd_core.answers import strategies_table
from spmd_core.base import bytes_text, seconds_text
from spmd_core.commands import remedies
from spmd_core.commands.printed.table import sheet_lines, table
from spmd_core.recipes import differences_of
from spmd_core.results import Point, Result, Shardings, Step, StrategyResult
from spmd_core.time import measured
from spmd_core.words import (
    CONFIRM,
    CONFIRM_PLAN,
    DEFINITIONS,
    axes_words,
    confirmation,
    environment_words,
    evidence_words,
    experiment_words,
    fit_words,
    headline_parts,
    interval_words,
    kept_words,
    kind_title,
    match_words,
    off_words,
    predicted_words,
    rate_words,
    roofline_words,
    studies,
    texts,
    title,
    value_words,
    values_text,
    wrong_words,
)

MAX_VALUES_SHOWN = 8


def report(result: Result) -> list[str]:
    """Lines of text, the first as on the screen."""
    lines = [
        *filter(None, headline_parts(result, differences_of(result))),
        f"run {result.run}: {experiment_words(result.experiment)}",
        f"on {environment_words(result.environment)}",
        *filter(None, [evidence_words(result)]),
    ]
    if result.environments:
        lines.append(predicted_words(result.environments))
    if result.partial:
        lines.append(f"The run ended before it was done: {kept_words(result)}.")
    if result.experiment.what.is_of_machine:
        return [*lines, "", *_of_machine(result), *_remarks(result)]
    explained = [f"note: {note}" for note in studies.explained(result)]
    rows = sheet_lines(strategies_table(result, "terminal"))
    ends = [*explained, *remedies.lines(result), *_next(result)]
    return [*lines, "", *rows, *_remarks(result), *ends]


def _next(result: Result) -> list[str]:
    """How to confirm the answer, and what to try next, in a line each."""
    confirm = [f"note: {CONFIRM} ({CONFIRM_PLAN})"] if confirmation(result) else []
    return [*confirm, *([f"next: {result.next.sentence}"] if result.next else [])]


def _remarks(result: Result) -> Iterator[str]:
    """What was printed, noted, warned of or went wrong; the values of small results."""
    remarks = [
        line
        for name, outcome in result.strategies.items()
        for line in _of_strategy(title(name), outcome)
    ]
    remarks += [f"{rows}: {note}" for rows, note in studies.noted(result, _notes)]
    yield from ["", *remarks] if remarks else []
    yield from (f"note: {note}" for note in result.notes)


def _notes(outcome: StrategyResult) -> Iterator[str]:
    yield from outcome.notes
    yield from outcome.prediction.notes if outcome.prediction else ()
    yield from (f"compiler warning: {warning}" for warning in outcome.warnings)


def _of_strategy(name: str, outcome: StrategyResult) -> Iterator[str]:
    if outcome.error:
        yield f"{name}: {outcome.error.kind}: {' '.join(outcome.error.message.split())}"
    if (wrong := wrong_words(outcome)) is not None:
        yield f"{name}: {wrong}"
    for what, text in outcome.printed.items():
        yield f"{name}: {what}: {text}"
    for array, reported in outcome.outputs.items():
        if reported.values is not None:
            yield f"{name}: {array} = {values_text(reported, MAX_VALUES_SHOWN)}"
    if outcome.bytes_per_s is not None:
        yield f"{name}: {outcome.bytes_per_s / 1e9:.3g} GB/s"
    if outcome.roofline and (words := roofline_words(outcome.roofline)):
        yield f"{name}: {words}"
    if outcome.trace is not None:
        yield from (f"{name}: {words}" for words in (outcome.trace.sentence, *outcome.trace.notes))
    if outcome.predicted_s and outcome.prediction_error is not None:
        off = off_words(outcome.prediction_error)
        yield f"{name}: predicted {seconds_text(outcome.predicted_s.estimate)}, {off}"


def _of_machine(result: Result) -> list[str]:
    """A row for each point or ceiling, then the fits in words."""
    measurements = measured(result)
    lines = list(_ceilings(result)) if measurements.ceilings else []
    if measurements.points and not measurements.ceilings:
        lines += table(_point_rows(measurements.points), numbers=(2, 3, 4, 5, 6))
    if measurements.fits:
        lines += ["", *map(fit_words, measurements.fits)]
    return lines + ([f"note: {DEFINITIONS}"] if measurements.points else [])


def _point_rows(points: tuple[Point, ...]) -> list[tuple[str, ...]]:
    rows = [("collective", "over", "bytes", "time", "algorithm", "bus", "predicted", "values")]
    for point in points:
        rows.append(
            (
                kind_title(point.kind),
                axes_words(point.axes),
                bytes_text(point.bytes),
                seconds_text(point.time_s),
                rate_words(point.algbw),
                rate_words(point.busbw),
                seconds_text(point.predicted_s),
                point.error or match_words(point.correct, "–"),
            )
        )
    return rows


def _ceilings(result: Result) -> Iterator[str]:
    rows = [("ceiling", "value", "95 % interval", "data sheet")]
    for each in measured(result).ceilings:
        sheet = each.model_copy(update={"value": each.data_sheet}) if each.data_sheet else None
        rows.append(
            (
                each.title,
                value_words(each),
                interval_words(each),
                value_words(sheet) if sheet else "–",
            )
        )
    yield from table(rows, numbers=(1, 2, 3))


def shardings_report(result: Result) -> Iterator[str]:
    """Lines of each strategy whose shardings were read."""
    for name, outcome in result.strategies.items():
        if outcome.shardings is not None:
            yield ""
            yield from shardings_lines(title(name), outcome.shardings)


def shardings_lines(name: str, shardings: Shardings) -> Iterator[str]:
    """A sentence, and a row for each step that has a name or needs something sent."""
    yield f"{name}: {texts.steps_headline(shardings)}"
    rows = [("value", "shape", "sharded", "per device", "before it", "source")]
    rows += [
        (
            texts.value_words(step),
            texts.shape_words(step),
            texts.sharded_words(step),
            bytes_text(step.bytes),
            texts.before_words(step),
            _place(step),
        )
        for step in shardings.steps
        if texts.is_listed(step)
    ]
    if len(rows) > 1:
        yield from table(rows, numbers=(3,))


def _place(step: Step) -> str:
    return f"{step.source}: {step.code}" if step.source else "operand"

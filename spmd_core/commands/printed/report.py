"""A result as text: the answer first, then a row per strategy, then what a reader of the numbers
needs to know."""

from collections.abc import Iterator

from spmd_core.advice import CONFIRM, confirmation
from spmd_core.answers import CEILING_ROWS, collectives_table, strategies_table, sweep_points
from spmd_core.base import bytes_text, seconds_text
from spmd_core.facts import SURE_PROCESSES, Shardings
from spmd_core.recipes import differences_of
from spmd_core.results import Result, StrategyResult
from spmd_core.roofline import measured
from spmd_core.sheets import sheet_lines, table
from spmd_core.surveys import studies
from spmd_core.terms import (
    DEFINITIONS,
    environment_words,
    experiment_words,
    fit_words,
    predicted_words,
    roofline_words,
    title,
)
from spmd_core.trials import remedy_lines
from spmd_core.words import (
    evidence_words,
    headline_parts,
    kept_words,
    off_words,
    other_warnings,
    texts,
    values_text,
    wrong_words,
)

CONFIRM_PLAN = f'"timing": {{"processes": {SURE_PROCESSES}}}'  # of a spec


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
    confirm = [f"note: {CONFIRM} ({CONFIRM_PLAN})"] if confirmation(result) else []
    onward = [f"next: {result.next.sentence}"] if result.next else []
    ends = [*explained, *remedy_lines(result), *confirm, *onward]
    return [*lines, "", *rows, *_collectives(result), *_remarks(result), *ends]


def _collectives(result: Result) -> list[str]:
    known = (each.collectives or () for each in result.strategies.values())
    if not any(one.origin or one.no_origin for each in known for one in each):
        return []
    return ["", *sheet_lines(collectives_table(result, "terminal"))]


def _remarks(result: Result) -> Iterator[str]:
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
    yield from (f"compiler warning: {warning}" for warning in other_warnings(outcome))


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
    measurements = measured(result)
    lines = sheet_lines(CEILING_ROWS.table(measurements.ceilings, "screen"))
    if measurements.points and not measurements.ceilings:
        lines += sheet_lines(sweep_points(measurements.points, result.experiment.place))
    if measurements.fits:
        lines += ["", *map(fit_words, measurements.fits)]
    return lines + ([f"note: {DEFINITIONS}"] if measurements.points else [])


def shardings_report(result: Result) -> Iterator[str]:
    """Lines of each strategy whose shardings were read."""
    for name, outcome in result.strategies.items():
        if outcome.shardings is not None:
            yield ""
            yield from shardings_lines(title(name), outcome.shardings)


def shardings_lines(name: str, shardings: Shardings) -> Iterator[str]:
    """A sentence, and a row for each step that has a name or needs something sent."""
    yield f"{name}: {texts.steps_headline(shardings)}"
    rows = [("value", "shape", "sharded", "per device", "set by", "before it", "source")]
    rows += [
        (
            texts.value_words(step),
            texts.shape_words(step),
            texts.sharded_words(step),
            bytes_text(step.bytes),
            texts.set_by_words(step),
            texts.before_words(step),
            f"{step.source}: {step.code}" if step.source else "operand",
        )
        for step in shardings.steps
        if texts.is_listed(step)
    ]
    if len(rows) > 1:
        yield from table(rows, numbers=(3,))

"""A report of stored runs: of one run all that it left, of several the comparison, then each."""

import json
import time
from collections.abc import Mapping, Sequence

from spmd_core.advice import run_findings
from spmd_core.answers import (
    CEILING_ROWS,
    collectives_table,
    parts_table,
    phases_table,
    samples_table,
    series_table,
    strategies_table,
    sweep_points,
)
from spmd_core.base import capital, numbered
from spmd_core.history import origin_words
from spmd_core.recipes import differences_of
from spmd_core.reports.comparison import Subject, compare_runs
from spmd_core.reports.comparison_document import comparison_document, made_words
from spmd_core.reports.document import (
    Bar,
    Block,
    Chart,
    Document,
    Folded,
    Heading,
    Paragraph,
    reported,
    reported_table,
)
from spmd_core.results import Result
from spmd_core.roofline import measured
from spmd_core.script import script_text, why_no_script
from spmd_core.surveys import studies
from spmd_core.terms import (
    experiment_words,
    marker,
    outcome_words,
    predicted_words,
    row_title,
    state_words,
    title,
)
from spmd_core.words import caveats, evidence_words, failures, headline_parts, kept_words

_MOST_BARS = 40
_MOST_FINDINGS = 3
Texts = Mapping[str, Mapping[str, str]]  # of a run: by strategy and name


def report_document(
    subjects: Sequence[Subject], texts: Mapping[str, Texts] | None = None
) -> Document:
    """The report. `texts`: by run, the program texts that are to be in it."""
    own = texts or {}
    if len(subjects) == 1:
        (subject,) = subjects
        return Document(run_title(subject), tuple(run_blocks(subject, own.get(subject.run, {}))))
    compared = compare_runs(subjects)
    first = comparison_document(compared)
    blocks = list(first.blocks)
    for each in compared.subjects:
        blocks.append(Heading(f"{each.letter}: {run_title(each)}"))
        blocks += run_blocks(each, own.get(each.run, {}))
    return Document(first.title, tuple(blocks))


def findings_points(result: Result) -> list[str]:
    """Returns the findings of the program of a run as sentences, the costliest first; of many the first
    three, and how many more there are.
    """
    sentences = [each.sentence for each in run_findings(result)]
    more = len(sentences) - _MOST_FINDINGS
    return sentences[:_MOST_FINDINGS] + [f"{numbered(more, 'more finding')}."] * (more > 0)


def run_title(subject: Subject) -> str:
    """The name of a run, else its experiment."""
    return subject.summary.labels.name or experiment_words(subject.summary.experiment)


def run_blocks(subject: Subject, texts: Texts) -> list[Block]:
    """What is known of a run, the answer first."""
    summary, result = subject.summary, subject.result
    blocks = _opening(subject)
    if summary.error:
        blocks += [
            Paragraph(f"The run {state_words(summary.state).lower()} ({summary.error.kind})."),
            Folded("What was reported, word for word", reported(summary.error.message)),
        ]
    if result is None:
        return [*blocks, Paragraph("The run left no result."), *_made_of(subject)]
    moved = reported_table(collectives_table(result, programs=subject.programs))
    communication = [Heading("Collectives", 3), moved] if moved.rows else []
    if points := findings_points(result):
        blocks += [Heading("What is wrong", 3), *(Paragraph(f"• {each}") for each in points)]
    blocks += [*_times(result), *communication, *_remarks(result)]
    for strategy, named in texts.items():
        blocks += [
            Folded(f"{title(strategy)}: {name}", reported(text)) for name, text in named.items()
        ]
    return [*blocks, *_made_of(subject)]


def _opening(subject: Subject) -> list[Block]:
    summary, result = subject.summary, subject.result
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(subject.moment))
    labels = summary.labels
    by = f", by {summary.owner}" if summary.owner else ""
    blocks: list[Block] = []
    if result:
        answer, more = headline_parts(result, differences_of(result))
        blocks.append(Paragraph(answer, is_first=True))
        evidence = evidence_words(result)
        rests_on = f"{capital(evidence)}." if evidence else ""
        beside = " ".join(f"{each}." for each in caveats(result))
        blocks += [Paragraph(each) for each in (beside, more, rests_on) if each]
    if labels.name:  # else the title is the experiment
        blocks.append(Paragraph(f"{experiment_words(summary.experiment)}."))
    blocks.append(Paragraph(f"Run {summary.run}, {outcome_words(summary).lower()}, {when}{by}."))
    if result:
        blocks.append(Paragraph(made_words(result)))
        if result.environments:
            blocks.append(Paragraph(f"Also {predicted_words(result.environments)}."))
        if result.partial:
            blocks.append(Paragraph(f"It ended before it was done: {kept_words(result)}."))
        if summary.origin:
            kind = result.environment.device_kind
            blocks.append(Paragraph(origin_words(summary.origin, result.experiment, kind)))
    if labels.tags:
        blocks.append(Paragraph(" ".join(f"#{tag}" for tag in labels.tags)))
    return [*blocks, *([Paragraph(labels.note, is_note=True)] if labels.note else [])]


def _times(result: Result) -> list[Block]:
    blocks: list[Block] = []
    is_timed = not result.experiment.what.is_of_machine
    if is_timed and (table := strategies_table(result, "document")).rows:
        blocks += [Heading("Times and memory", 3), table]
    blocks += [Paragraph(note) for note in studies.explained(result)]
    if chart := times_chart(result):
        blocks.append(chart)
    machine = measured(result)
    if (ceilings := CEILING_ROWS.table(machine.ceilings, "screen")).rows:
        blocks += [Heading("Ceilings", 3), ceilings]
    if (parts := parts_table(result)).rows:
        blocks += [Heading("Where the predicted time goes", 3), parts]
    count = max((each.processes for each in result.strategies.values()), default=1)
    of_first = f" of the first of {numbered(count, 'process')}" if count > 1 else ""
    for heading, table in (
        ("Points of the sweep", sweep_points(machine.points, result.experiment.place)),
        ("Once, before the steady state", phases_table(result)),
        (f"Every sample{of_first}", samples_table(result)),
        ("Curves of the training run", series_table(result)),
    ):
        if table.rows:
            blocks.append(Folded(heading, table))
    return blocks


def _remarks(result: Result) -> list[Block]:
    """Failures, notes and warnings; what others wrote without what names this machine."""
    blocks: list[Block] = [
        Paragraph(f"{reported(sentence)} ({', '.join(map(title, names))})")
        for sentence, names in failures(result).items()
    ]
    notes = [
        *(f"{rows}: {note}" for rows, note in studies.noted(result)),
        *result.notes,
        *(result.environment.notes),
    ]
    if notes:
        shown = dict.fromkeys(map(reported, notes))
        blocks += [Heading("Notes", 3), *(Paragraph(note) for note in shown)]
    if result.next:
        blocks.append(Paragraph(f"Next: {result.next.sentence}"))
    warnings = [
        f"{title(name)}: {warning}" for name, each in result.ordered for warning in each.warnings
    ]
    if warnings:
        blocks.append(Folded("What the compiler warned of", reported("\n".join(warnings))))
    return blocks


def _made_of(subject: Subject) -> list[Block]:
    experiment = subject.summary.experiment
    spec = json.dumps(experiment.to_json(), indent=1)
    made_of: list[Block] = [Folded("The experiment as a spec", reported(spec))]
    if not why_no_script(experiment):
        script = reported(script_text(experiment, subject.result))
        made_of.append(Folded("A script that reproduces it", script))
    return made_of


def times_chart(result: Result) -> Chart | None:
    """Median or estimate of each row with its interval, and every sample as a tick."""
    bars = []
    for name, outcome in result.ordered:
        label, color = row_title(result, name), result.experiment.palette_place(name)
        mark = marker(result.experiment, name)
        if outcome.median_s is not None:
            low, high = outcome.ci95_s or (None, None)
            bars.append(Bar(label, outcome.median_s, low, high, outcome.samples_s, color, mark))
        elif time := outcome.predicted_s:
            label += ", predicted"
            bars.append(Bar(label, time.estimate, time.low, time.high, (), color, mark))
    many = len(bars) > _MOST_BARS
    what = f"Time of the {_MOST_BARS} fastest rows" if many else "Time per call or step"
    return Chart(f"{what}, with its interval", tuple(bars[:_MOST_BARS])) if bars else None

"""What people added to runs: as words, and as terms of a search such as `tag:v5p note:ring`."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from spmd_core.base import visible
from spmd_core.experiment import Experiment
from spmd_core.results import EXAMPLES, Origin, RunSummary

_TERM = re.compile(r'(?<!\S)(tag|note|name|by|is):("[^"]*"|\S+)', re.IGNORECASE)
PINNED, FOREIGN, EXAMPLE = "pinned", "foreign", "example"


def terms(text: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """(field, value) of each term of a search, and the phrase that is left.

    >>> terms('x=8 tag:v5p note:"ring attention"')
    ((('tag', 'v5p'), ('note', 'ring attention')), 'x=8')
    """
    matched = [(field, value.strip('"')) for field, value in _TERM.findall(text)]
    fields = tuple((field.lower(), " ".join(value.lower().split())) for field, value in matched)
    return fields, " ".join(_TERM.sub(" ", text).split())


def fits(run: RunSummary, wanted: Sequence[tuple[str, str]]) -> bool:
    """Whether a run fits every term: a tag as a word, other texts in part, case aside."""
    return all(_fits(run, field, value) for field, value in wanted)


def asks_for_examples(text: str) -> bool:
    """Whether a search names `is:example`: results that came with the program are in no other."""
    return ("is", EXAMPLE) in terms(text)[0]


def is_example(run: RunSummary) -> bool:
    """Whether a run came with the program."""
    return run.origin is not None and run.origin.installation == EXAMPLES


def _fits(run: RunSummary, field: str, value: str) -> bool:
    labels = run.labels
    if field == "tag":
        return value.removeprefix("#") in (tag.casefold() for tag in labels.tags)
    if field == "is":
        return {
            PINNED: labels.is_pinned,
            FOREIGN: run.origin is not None,
            EXAMPLE: is_example(run),
        }.get(value, False)
    texts: Mapping[str, str] = {"note": labels.note, "name": labels.name, "by": run.owner}
    return value in " ".join(texts[field].lower().split())


def labels_words(run: RunSummary) -> str:
    """Pin, name, tags and origin of a run on one line; empty where it has none."""
    labels = run.labels
    parts = [
        "★" if labels.is_pinned else "",
        ("(example)" if is_example(run) else "(foreign)") if run.origin else "",
        visible(labels.name),
        *(f"#{visible(tag)}" for tag in labels.tags),
    ]
    return " ".join(part for part in parts if part)


def origin_words(origin: Origin, experiment: Experiment, device: str) -> str:
    """Where a foreign run was measured, or its prediction compiled, as a sentence. `device`: the
    kind of its devices.
    """
    is_prediction = experiment.place.is_absent
    made = "compiled" if is_prediction else "run"
    on = f"{'for' if is_prediction else 'on'} {visible(device)}"
    answers = (
        "Nothing was executed."
        if is_prediction
        else "It answers for that machine, not for this one."
    )
    if origin.installation == EXAMPLES:
        return f"An example that came with the program: it was {made} elsewhere, {on}. {answers}"
    day = datetime.fromtimestamp(origin.imported_at, UTC).strftime("%Y-%m-%d")
    return (
        f"A foreign {'prediction' if is_prediction else 'run'}: it was {made} on another "
        f"installation ({visible(origin.installation)}), {on}, and imported on {day}. {answers}"
    )


def foreign_search_words(installation: str) -> str:
    """Where a foreign search is from, as a sentence."""
    return (
        f"A foreign search: it was found on another installation ({visible(installation)}). It "
        "answers for that machine, and nothing here goes on from it."
    )


def imported_words(imported: int, present: int, refused: int) -> str:
    """What became of the runs of an archive: `12 imported, 1 here before`."""
    counts = {"imported": imported, "here before": present, "refused": refused}
    return ", ".join(f"{count:,} {what}" for what, count in counts.items() if count) or "no runs"

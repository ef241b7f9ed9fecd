"""A stored run as a row of History: its cells, what people added to it, and whether a text or a
term such as `tag:v5p` is in them.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spmd_core.base import bytes_text, count_text, seconds_text, visible
from spmd_core.experiment import Experiment
from spmd_core.runs import Origin, RunSummary
from spmd_core.terms import (
    dtype_words,
    experiment_words,
    mesh_words,
    model_words,
    outcome_words,
    sharding_words,
    title,
    workload_title,
)

TERMS = ("tag:", "note:", "name:", "by:", "is:")
_TERM = re.compile(rf'(?<!\S)({"|".join(TERMS)})("[^"]*"|\S+)', re.IGNORECASE)
PINNED, FOREIGN, EXAMPLE = "pinned", "foreign", "example"


_ROWS_KEPT = 20_000  # texts of rows, of about 400 characters
_row_texts: dict[tuple[int, str | None], tuple[RunSummary, str]] = {}


def shape_words(experiment: Experiment) -> dict[str, str]:
    """What is computed, dims, dtype, mesh, sharding and target of an experiment by column; of a
    study the values of its variants, each once.
    """
    members = [each.experiment for each in experiment.members]
    cells = {
        label: "; ".join(dict.fromkeys(text for each in members if (text := words(each))))
        for label, words in _COLUMNS.items()
    }
    if experiment.variants:
        cells["Workload"] = f"Study of {len(members)} variants: {cells['Workload']}"
    return cells


def operand_bytes(experiment: Experiment) -> int | None:
    """Bytes of all operands, of a study those of its largest variant; None where no dims are known."""
    sizes = [
        each.experiment.what.operand_bytes(each.experiment.sizes, each.experiment.dtype)
        for each in experiment.members
        if each.experiment.dims and not each.experiment.plan
    ]
    return max(sizes, default=None)


def answer_words(run: RunSummary) -> str:
    """The lowest median of a stored run, or estimate, and whose it is; empty where there is none."""
    if run.answer is None:
        return ""
    _, seconds, is_predicted = run.answer
    time = f"{fastest_words(run)} {seconds_text(seconds)}".lstrip()
    return f"{time}{', predicted' if is_predicted else ''}"


def fastest_words(run: RunSummary) -> str:
    """The strategy or variant with the lowest time, proven or not; "" where there is none to choose
    from, or no time.
    """
    return "" if run.answer is None or len(run.experiment.rows) == 1 else title(run.answer[0])


def row_text(run: RunSummary, zone: str | None) -> str:
    """What a row shows, in small letters; made once for each value of a run."""
    # by identity, and the run is held with its text: a hash of an experiment costs more than the rest
    known = _row_texts.get((id(run), zone))
    if known is None or known[0] is not run:
        if len(_row_texts) >= _ROWS_KEPT:
            _row_texts.clear()
        known = _row_texts[id(run), zone] = run, plain_text(_made_row_text(run, zone))
    return known[1]


def _made_row_text(run: RunSummary, zone: str | None) -> str:
    cells = [
        run.run,
        when_words(run.submitted_at, zone),
        answer_words(run),
        outcome_words(run),
        labels_words(run),
    ]
    return " · ".join([*cells, _experiment_text(run.experiment)])  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=4096)  # a search reads every stored run, and many are of one experiment
def _experiment_text(experiment: Experiment) -> str:
    bytes_ = operand_bytes(experiment)
    cells = [
        *shape_words(experiment).values(),
        ""
        if bytes_ is None
        else f"{bytes_text(bytes_)}, {count_text(bytes_ // 2**10)} KiB, {bytes_} B",
        experiment.workload,
        experiment_words(experiment),
    ]
    return " · ".join(cells)


def when_words(moment: float, zone: str | None = None) -> str:
    """A moment as History shows it, `2026-01-31 14:05`. `zone`: a name such as `Europe/Berlin`;
    None, or one that is not known: this machine's.
    """
    try:
        place = ZoneInfo(zone) if zone else None
    except (ZoneInfoNotFoundError, ValueError):
        place = None
    return datetime.fromtimestamp(moment, UTC).astimezone(place).strftime("%Y-%m-%d %H:%M")


def plain_text(text: str) -> str:
    """Returns a text in small letters, with one space between words."""
    return " ".join(text.lower().split())


def _workload(experiment: Experiment) -> str:
    if experiment.plan:
        return f"Training step: {model_words(experiment.plan)}"
    if experiment.what.is_small_program:
        return f"Program {experiment.option('program')}"
    return workload_title(experiment.workload)


_COLUMNS: Mapping[str, Callable[[Experiment], str]] = {
    "Workload": _workload,
    "Dims": lambda experiment: " ".join(f"{dim}={size}" for dim, size in experiment.dims),
    "dtype": dtype_words,
    "Mesh": lambda each: mesh_words(each.mesh),
    "Sharding": lambda experiment: (
        sharding_words(experiment)
        if experiment.dims and not experiment.plan and not experiment.served
        else ""
    ),
    "Target": lambda each: each.target,
}


def terms(text: str) -> tuple[tuple[tuple[str, str], ...], str]:
    """(field, value) of each term of a search, and the phrase that is left.

    >>> terms('x=8 tag:v5p note:"ring attention"')
    ((('tag', 'v5p'), ('note', 'ring attention')), 'x=8')
    """
    matched = [(field, value.strip('"')) for field, value in _TERM.findall(text)]
    fields = tuple(
        (field[:-1].lower(), " ".join(value.lower().split())) for field, value in matched
    )
    return fields, " ".join(_TERM.sub(" ", text).split())


def fits(run: RunSummary, wanted: Sequence[tuple[str, str]]) -> bool:
    """Whether a run fits every term: a tag as a word, other texts in part, case aside."""
    return all(_fits(run, field, value) for field, value in wanted)


def asks_for_examples(text: str) -> bool:
    """Whether a search names `is:example`: results that came with the program are in no other."""
    return ("is", EXAMPLE) in terms(text)[0]


def is_example(run: RunSummary) -> bool:
    """Whether a run came with the program."""
    return run.origin is not None and run.origin.is_example


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
        visible(labels.name),
        *(f"#{visible(tag)}" for tag in labels.tags),
        ("(example)" if is_example(run) else "(foreign)") if run.origin else "",
    ]
    return " ".join(part for part in parts if part)


def origin_words(origin: Origin, experiment: Experiment, device: str) -> str:
    """Where a foreign run was measured, or its prediction compiled, as a sentence. `device`: the
    kind of its devices.
    """
    is_prediction = experiment.place.is_absent
    made = "compiled" if is_prediction else "run"
    on = f"{'for' if is_prediction else 'on'} {visible(device)}"
    answers = "Nothing was executed." if is_prediction else "It answers for that machine alone."
    if origin.is_example:
        return f"An example, {made} elsewhere {on}. {answers}"
    day = datetime.fromtimestamp(origin.imported_at, UTC).strftime("%Y-%m-%d")
    return (
        f"A foreign {'prediction' if is_prediction else 'run'}, from "
        f"{visible(origin.installation)}: it was {made} on another installation, {on}, and imported "
        f"on {day}. {answers}"
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

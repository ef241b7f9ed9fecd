"""A stored run as a row of History: its cells, and whether a text is in them."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from spmd_core.base import bytes_text, count_text, seconds_text
from spmd_core.experiment import Experiment
from spmd_core.results import RunSummary
from spmd_core.words.experiments import experiment_words, model_words, sharding_words
from spmd_core.words.history.added import fits, labels_words, terms
from spmd_core.words.names import mesh_words, outcome_words, title, workload_title

_ROWS_KEPT = 20_000  # texts of rows, of about 400 characters
_row_texts: dict[tuple[object, ...], str] = {}


def shape_words(experiment: Experiment) -> dict[str, str]:
    """What is computed, dims, dtype, mesh, sharding and target of an experiment by column; of a study
    the values of its variants, each once.
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


def stored_words(count: int) -> str:
    """How many runs of the experiment in the fields are stored."""
    return f"{count} stored {'run' if count == 1 else 'runs'} of this experiment."


def answer_words(run: RunSummary) -> str:
    """The strategy of a stored run with the lowest median, or estimate, and that; empty where there
    is none.
    """
    if run.answer is None:
        return ""
    fastest, seconds, is_predicted = run.answer
    return f"{title(fastest)} {seconds_text(seconds)}{', predicted' if is_predicted else ''}"


def matches(text: str, zone: str | None = None) -> Callable[[RunSummary], bool]:
    """Whether a run fits the terms of `text`, such as `tag:v5p`, and its row has the rest: as one
    phrase, case and spacing aside. `zone`: the time zone in which the row shows its moment; None:
    this machine's.
    """
    wanted, phrase = terms(text)
    rest = _plain(phrase)
    return lambda run: fits(run, wanted) and (not rest or rest in _row_text(run, zone))


def _row_text(run: RunSummary, zone: str | None) -> str:
    """What a row shows, in small letters; made once for each run as it is."""
    moments = (run.submitted_at, run.finished_at)
    is_foreign = run.origin is not None
    key = (run.run, moments, run.state, run.fastest, run.labels, is_foreign, run.experiment, zone)
    if key not in _row_texts:
        if len(_row_texts) >= _ROWS_KEPT:
            _row_texts.clear()
        _row_texts[key] = _plain(_made_row_text(run, zone))
    return _row_texts[key]


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
    """A moment as History shows it, `2026-01-31 14:05`. `zone`: a name such as `Europe/Berlin`; None,
    or one that is not known: this machine's.
    """
    try:
        place = ZoneInfo(zone) if zone else None
    except (ZoneInfoNotFoundError, ValueError):
        place = None
    return datetime.fromtimestamp(moment, UTC).astimezone(place).strftime("%Y-%m-%d %H:%M")


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _workload(experiment: Experiment) -> str:
    if experiment.plan:
        return model_words(experiment.plan)
    if experiment.what.is_small_program:
        return f"Program {experiment.option('program')}"
    return workload_title(experiment.workload)


def _dims(experiment: Experiment) -> str:
    return " ".join(f"{dim}={size}" for dim, size in experiment.dims)


def _sharding(experiment: Experiment) -> str:
    return sharding_words(experiment) if experiment.dims and not experiment.plan else ""


_COLUMNS: Mapping[str, Callable[[Experiment], str]] = {
    "Workload": _workload,
    "Dims": _dims,
    "dtype": lambda each: each.dtype,
    "Mesh": lambda each: mesh_words(each.mesh),
    "Sharding": _sharding,
    "Target": lambda each: each.target,
}

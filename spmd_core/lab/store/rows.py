"""Rows of the SQLite file as values; a row that this version cannot read is an error that names it."""

import json
import sqlite3
import zlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from spmd_core.base import RequestError, UnreadableRun, shorten
from spmd_core.experiment import Experiment, parse_experiment_text
from spmd_core.results import Environment, Failure, Result, fastest_row
from spmd_core.runs import (
    ACTIVE,
    EXAMPLES,
    STATES,
    Labels,
    Origin,
    RunProgress,
    RunStatus,
    RunSummary,
)


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the process that works the queue: cancel or interrupt a run, release,
    probe.
    """

    id: int
    kind: str
    run: str | None = None
    target: str | None = None
    answered: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Unread:
    """A stored run that this version cannot read: it can be deleted, and nothing else."""

    run: str
    state: str
    reason: str


IS_EXAMPLE = f"COALESCE(origin, '') LIKE '%\"installation\": \"{EXAMPLES}\"%'"
LABELS = "labels.name, labels.note, labels.tags, labels.pinned, origin"  # of a run's row
WITH_LABELS = "LEFT JOIN labels ON labels.run = runs.id"
# what damaged bytes make of a row: RequestError and others are of values, IndexError of columns
_UNREAD = (RequestError, ValueError, TypeError, OverflowError, IndexError, RecursionError)
_MOST_S = 1e15  # of a time that was measured or predicted
_LAST_MOMENT_S = 2.0**33  # in the year 2242; pandas has no moments after 2262


PROGRESS = TypeAdapter(RunProgress)


def unreadable(run: str, what: str, error: Exception) -> UnreadableRun:
    """The error for a run of which `what` cannot be read."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"][:4])
        reason = f"{place}: {first['msg']}" if place else first["msg"]
    else:
        reason = " ".join(str(error).split()) or type(error).__name__
    text = reason if len(reason) <= 200 else f"{reason[:199]}…"
    return UnreadableRun(
        f"run {shorten(run)}: this version cannot read its {what} ({text}): open "
        "it with the version that made it, or delete it on History",
        run,
    )


@lru_cache(maxsize=1024)
def experiment_of(spec: str) -> Experiment:
    """The experiment of a stored spec; RequestError where this version cannot read it."""
    return parse_experiment_text(spec)


def status_of(row: sqlite3.Row) -> RunStatus:
    """A run's row; UnreadableRun where it is not one that this version understands."""
    try:
        return RunStatus(
            run=str(row["id"]),
            state=_state(row),
            experiment=experiment_of(row["spec"]),
            submitted_at=_moment(row["submitted_at"]),
            started_at=_moment_or_none(row["started_at"]),
            finished_at=_moment_or_none(row["finished_at"]),
            queue_position=row["position"],
            error=failure_of(row),
            stderr_tail=_text(row["stderr_tail"]),
            worker_pid=row["worker_pid"] if isinstance(row["worker_pid"], int) else None,
            compile_only=bool(row["compile_only"]),
            client=row["client"],
            lasts=bool(row["lasts"]),
            **_progress(row),
        )
    except _UNREAD as error:
        raise unreadable(str(row["id"]), "experiment", error) from error


def _progress(row: sqlite3.Row) -> Mapping[str, Any]:
    """Fields of the progress of a run, of one that is over the workers left out; none where they
    cannot be read: the run goes on.
    """
    try:
        noted = PROGRESS.validate_json(row["progress"] or "{}")
    except ValidationError:
        return {}
    return asdict(noted) if row["state"] in ACTIVE else {"left_out": noted.left_out}


def summary_of(row: sqlite3.Row) -> RunSummary:
    """A run's row of a list; UnreadableRun where this version does not understand it."""
    try:
        return RunSummary(
            str(row["id"]),
            _state(row),
            experiment_of(row["spec"]),
            _moment(row["submitted_at"]),
            _moment_or_none(row["finished_at"]),
            _times(row["medians"]),
            _text(row["fastest"]),
            bool(row["partial"]),
            failure_of(row),
            _times(row["predicted"]),
            labels_of(row),
            origin_of(row),
            _text(row["owner_name"]) or "",
            bool(row["imprecise"]),
            _text(row["batch"]),
        )
    except _UNREAD as error:
        raise unreadable(str(row["id"]), "experiment", error) from error


def labels_of(row: sqlite3.Row) -> Labels:
    """What people added to the run of a row with `LABELS`."""
    try:
        tags = tuple(str(tag) for tag in json.loads(row["tags"] or "[]"))
    except (ValueError, TypeError):  # a damaged row keeps its run
        tags = ()
    return Labels(row["name"] or "", row["note"] or "", tags, bool(row["pinned"]))


def origin_of(row: sqlite3.Row) -> Origin | None:
    """Where the run of a row is from; None of a run of this data folder."""
    if row["origin"] is None:
        return None
    try:
        fields = json.loads(row["origin"])
        return Origin(str(fields["installation"]), float(fields["imported_at"]))
    except (ValueError, TypeError, KeyError):
        return Origin("unknown", 0.0)


def _times(text: str | None) -> Mapping[str, Any]:
    """Seconds by strategy, None where there are none; ValueError for anything else."""
    times = json.loads(text or "{}")
    if not isinstance(times, dict) or not all(
        value is None or (isinstance(value, int | float) and abs(value) <= _MOST_S)
        for value in times.values()
    ):
        raise ValueError(f"{shorten(times)} is not an object of seconds")
    return times


def _state(row: sqlite3.Row) -> str:
    if row["state"] not in STATES:
        raise ValueError(f"state {shorten(row['state'])} is not known")
    return row["state"]


def _text(value: Any) -> str | None:
    return value if value is None else str(value)


def _moment(value: Any) -> float:
    """Seconds since 1970; ValueError for what no calendar here has."""
    moment = float(value)
    if not abs(moment) < _LAST_MOMENT_S:  # false of NaN, too
        raise ValueError(f"{shorten(value)} is no moment")
    return moment


def _moment_or_none(value: Any) -> float | None:
    return value if value is None else _moment(value)


def result_of(run: str, body: bytes) -> Result:
    """A stored result; UnreadableRun where it is truncated, or of a newer version."""
    try:
        return Result.model_validate_json(zlib.decompress(body))
    except (zlib.error, ValidationError, RequestError, TypeError) as error:
        raise unreadable(run, "result", error) from error


def result_body(result: Result) -> bytes:
    """A result as it is stored."""
    return zlib.compress(result.model_dump_json().encode(), 1)


def text_of(run: str, body: bytes) -> str:
    """A stored program text; UnreadableRun where it is damaged."""
    try:
        return zlib.decompress(body).decode(errors="replace")
    except (zlib.error, TypeError) as error:
        raise unreadable(run, "program texts", error) from error


def environment_of(body: str) -> Environment | None:
    """A stored device report; None where another version wrote it: it is requested anew."""
    try:
        return Environment.model_validate_json(body)
    except ValidationError:
        return None


def failure_of(row: sqlite3.Row) -> Failure | None:
    """Why a run failed."""
    if not row["error_kind"]:
        return None
    return Failure(kind=str(row["error_kind"]), message=str(row["error_message"] or ""))


def request_of(row: sqlite3.Row) -> Request:
    """A request's row."""
    answered = row["answered_at"] is not None
    return Request(row["id"], row["kind"], row["run"], row["target"], answered, row["error"])


def columns_at_end(result: Result | None, error: Failure | None) -> dict[str, object]:
    """Columns of a run that follow from what it leaves."""
    fastest = fastest_row(result) if result and result.comparison else None
    return {
        "error_kind": error and error.kind,
        "error_message": error and error.message,
        "medians": json.dumps(result.medians_s if result else {}),
        "predicted": json.dumps(result.only_predicted_s if result else {}),
        "fastest": fastest,
        "imprecise": int(bool(result and fastest and result.strategies[fastest].imprecise)),
        "partial": int(bool(result and result.partial)),
    }

"""Runs on their way into an archive and out of one: many at once, in one transaction."""

import json
import sqlite3
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spmd_core.base import refuse, shorten
from spmd_core.experiment import Experiment
from spmd_core.lab.store import rows as read
from spmd_core.lab.store.labels import insert_collection, write_labels
from spmd_core.lab.store.queue import insert_run
from spmd_core.lab.store.rows import LABELS, WITH_LABELS, labels_of, origin_of
from spmd_core.lab.store.searches import KeptSearches, insert_kept
from spmd_core.runs import TERMINAL, Collection, Labels, Origin
from spmd_core.search import KeptSearch

_OVER = f"state IN {TERMINAL!r}"
_OFFERED = 2  # examples: 1 where an older version, which took none beside runs, looked


@dataclass(frozen=True, slots=True)
class Incoming:
    """A run to be imported: its columns, and the compressed result and texts that it left."""

    run: str
    experiment: Experiment
    columns: Mapping[str, Any]
    labels: Labels
    body: bytes | None
    texts: tuple[tuple[str, str, bytes], ...]  # strategy, name, compressed text

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes in the database, about."""
        return sum(len(body) for _, _, body in self.texts) + len(self.body or b"")


class ArchivedRuns(KeptSearches):
    """Runs that are exported and imported, as values."""

    def installation(self) -> str:
        """The random mark of a data folder."""
        return str(self._rows("SELECT mark FROM installation")[0]["mark"])

    def every_finished(self) -> tuple[str, ...]:
        """Ids of every run that is over, oldest first, without those that came with the program."""
        query = f"SELECT id FROM runs WHERE {_OVER} AND NOT {read.IS_EXAMPLE} ORDER BY seq"
        return tuple(row["id"] for row in self._rows(query))

    def wants_examples(self, archive: str) -> bool:
        """Returns True at the first call, where nobody imported an archive by that name yet."""
        was = self._rows("SELECT examples FROM installation")[0]["examples"]
        if was == _OFFERED:
            return False
        self._write(f"UPDATE installation SET examples = {_OFFERED}")
        query = "SELECT 1 FROM actions WHERE action = 'import' AND subject = ?"
        return not self._rows(query, (archive,))

    def exported(self, runs: Iterable[str]) -> Iterator[tuple[dict[str, object], str | None]]:
        """Fields of each run as `ArchivedRun` has them, and the JSON text of its result.

        RequestError for a run that is not stored or not over; a damaged one is UnreadableRun.
        """
        for run in runs:
            stored = self._rows(
                f"""SELECT runs.*, spec, body, {LABELS} FROM runs
                    JOIN experiments ON experiments.id = runs.experiment {WITH_LABELS}
                    LEFT JOIN results ON results.run = runs.id WHERE runs.id = ?""",
                (run,),
            )
            if not stored:
                raise refuse(f"run {shorten(run)}", "is not stored here", "see the history")
            if stored[0]["state"] not in TERMINAL:
                raise refuse(f"run {run}", "is not over", "wait for its end, or cancel it")
            yield _fields(stored[0]), _result_text(run, stored[0]["body"])

    def present(self, runs: Sequence[str]) -> dict[str, tuple[str, float]]:
        """Experiment and moment of submission of those of the ids that are stored here."""
        known: dict[str, tuple[str, float]] = {}
        for at in range(0, len(runs), 500):
            some = runs[at : at + 500]
            marks = ", ".join("?" * len(some))
            rows = self._rows(
                f"SELECT id, experiment, submitted_at FROM runs WHERE id IN ({marks})", tuple(some)
            )
            known |= {row["id"]: (row["experiment"], row["submitted_at"]) for row in rows}
        return known

    def import_runs(
        self,
        incoming: Sequence[tuple[Incoming, str]],
        collections: Sequence[Collection] = (),
        searches: Sequence[KeptSearch] = (),
    ) -> tuple[str, ...]:
        """Store foreign runs, each with the installation that it is from, collections and searches,
        all or none; ids of those that were not here by then. StorageError where the disk is full.
        """
        now, stored = time.time(), []
        with self._transaction() as db:
            for each, mark in incoming:
                if db.execute("SELECT 1 FROM runs WHERE id = ?", (each.run,)).fetchone():
                    continue
                _insert(db, each, Origin(mark, now))
                stored.append(each.run)
            for each in collections:
                query = "SELECT 1 FROM collections WHERE id = ?"
                if not db.execute(query, (each.id,)).fetchone():
                    insert_collection(db, each, None, None)
                    stored.append(each.id)
            for each in searches:
                query = "SELECT 1 FROM kept_searches WHERE id = ?"
                if not db.execute(query, (each.id,)).fetchone():
                    insert_kept(db, each)
                    stored.append(each.id)
        return tuple(stored)


def _fields(row: sqlite3.Row) -> dict[str, object]:
    origin, error = origin_of(row), read.failure_of(row)
    return {
        "run": row["id"],
        "experiment": json.loads(row["spec"]),
        "state": row["state"],
        "submitted_at": row["submitted_at"],
        "started_at": row["started_at"],
        "finished_at": row["finished_at"],
        "error": error and error.model_dump(),
        "stderr_tail": row["stderr_tail"],
        "batch": row["batch"],
        "compile_only": bool(row["compile_only"]),
        "owner_name": row["owner_name"],
        "origin": origin and origin.installation,
        "labels": labels_of(row).to_json(),
    }


def _result_text(run: str, body: bytes | None) -> str | None:
    try:
        return None if body is None else zlib.decompress(body).decode()
    except (zlib.error, UnicodeDecodeError, TypeError) as error:
        raise read.unreadable(run, "result", error) from error


def _insert(db: sqlite3.Connection, each: Incoming, origin: Origin) -> None:
    columns = {
        "id": each.run,
        "experiment": each.experiment.id,
        **each.columns,
        "origin": json.dumps(asdict(origin)),
    }
    insert_run(db, each.experiment, columns)
    if each.body is not None:
        db.execute("INSERT INTO results VALUES (?, ?)", (each.run, each.body))
    rows = [(each.run, strategy, name, body) for strategy, name, body in each.texts]
    db.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", rows)
    if each.labels != Labels():
        write_labels(db, each.run, each.labels)

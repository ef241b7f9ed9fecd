"""The SQLite file of a data folder: experiments, runs, results, program texts, last known devices,
requests between processes.
"""

import contextlib
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from spmd_core.base import UnreadableRun
from spmd_core.experiment import Experiment
from spmd_core.lab.store import rows as read
from spmd_core.lab.store.archived import ArchivedRuns
from spmd_core.lab.store.queue import IN_ACTIVE, IN_PROGRESS, STATUS
from spmd_core.lab.store.rows import LABELS, WITH_LABELS, Request, Unread
from spmd_core.results import Environment, Failure, Result
from spmd_core.runs import TERMINAL, RunStatus, RunSummary

T = TypeVar("T")
_SUMMARIES_KEPT = 20_000  # about 20 MB
_SUMMARY = f"""SELECT runs.id, state, submitted_at, finished_at, medians, predicted, fastest,
    imprecise, partial, error_kind, error_message, owner_name, batch, {LABELS}, spec FROM runs
    JOIN experiments ON experiments.id = runs.experiment {WITH_LABELS}"""

_SOURCES = {
    "here": "origin IS NULL",
    "imported": f"NOT {read.IS_EXAMPLE}",
    "examples": "TRUE",
}
_SEARCHED = "COALESCE(batch, '') LIKE 'search %'"
_PINNED = "(SELECT run FROM labels WHERE pinned)"
_LABELED = "COALESCE(labels.name, '') <> '' OR COALESCE(labels.pinned, 0)"


class Store(ArchivedRuns):
    """What the tables of a data folder hold, as values."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self._summaries: dict[tuple[object, ...], RunSummary] = {}
        self._unread: tuple[tuple[object, ...], tuple[Unread, ...]] = ((), ())

    # Runs
    # -----------------------------------------------------------------------------------------------------------

    def oldest_finished(self, limit: int) -> tuple[str, ...]:
        """Ids of the oldest runs that are over."""
        rows = self._rows(
            f"SELECT id FROM runs WHERE NOT {IN_ACTIVE} ORDER BY seq LIMIT ?", (limit,)
        )
        return tuple(row["id"] for row in rows)

    def note(self, status: RunStatus) -> None:
        """Keep the progress of a started run, for other processes to follow."""
        self._write(
            f"UPDATE runs SET state = ?, progress = ?, worker_pid = ?, started_at = COALESCE(?, started_at) WHERE id = ? AND {IN_ACTIVE}",
            (
                status.state,
                read.PROGRESS.dump_json(status).decode(),
                status.worker_pid,
                status.started_at,
                status.run,
            ),
        )

    def finish(
        self,
        run: str,
        state: str,
        *,
        result: Result | None = None,
        texts: Mapping[str, Mapping[str, str]] | None = None,
        error: Failure | None = None,
        stderr_tail: str | None = None,
    ) -> bool:
        """Give a run its one terminal state, with all that it leaves; False, and nothing written,
        where it has one already.
        """
        if state not in TERMINAL:
            raise ValueError(f"{state} is not a terminal state")
        body = None if result is None else read.result_body(result)
        packed = [
            (run, strategy, name, zlib.compress(text.encode()))
            for strategy, named in (texts or {}).items()
            for name, text in named.items()
        ]
        columns = {
            "state": state,
            "stderr_tail": stderr_tail,
            "finished_at": time.time(),
            **read.columns_at_end(result, error),
        }
        with self._transaction() as db:
            changed = db.execute(
                f"UPDATE runs SET {', '.join(f'{name} = ?' for name in columns)} "
                f"WHERE id = ? AND {IN_ACTIVE}",
                (*columns.values(), run),
            )
            if changed.rowcount != 1:
                return False
            if body is not None:
                db.execute("INSERT INTO results VALUES (?, ?)", (run, body))
            db.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", packed)
            db.execute("DELETE FROM requests WHERE run = ?", (run,))
            return True

    def status(self, run: str) -> RunStatus | None:
        """A run as last written; None where there is none of that id. UnreadableRun for one that
        cannot be read.
        """
        return self._one(f"{STATUS} WHERE runs.id = ?", (run,), read.status_of)

    def active(self) -> tuple[RunStatus, ...]:
        """Runs without a terminal state, in the order of the queue, but those that cannot be read."""
        rows = self._rows(f"{STATUS} WHERE {IN_ACTIVE} ORDER BY seq")
        return tuple(_readable(read.status_of, rows))

    def in_progress(self) -> tuple[RunStatus, ...]:
        """Runs that have left the queue and are not over: at most one of each lane."""
        rows = self._rows(f"{STATUS} WHERE {IN_PROGRESS} ORDER BY seq")
        return tuple(_readable(read.status_of, rows))

    def result(self, run: str) -> Result | None:
        """The stored result; None where the run has none. UnreadableRun for one that cannot be
        read.
        """
        return self._one(
            "SELECT body FROM results WHERE run = ?",
            (run,),
            lambda row: read.result_of(run, row["body"]),
        )

    def latest(self, experiment_id: str) -> str | None:
        """The newest run of an experiment that succeeded in this data folder; None where there is
        none.
        """
        return self._one(
            """SELECT id FROM runs JOIN results ON run = id WHERE experiment = ? AND state = 'succeeded' AND partial = 0
            AND compile_only = 0 AND origin IS NULL
            ORDER BY seq DESC LIMIT 1""",
            (experiment_id,),
            lambda row: row["id"],
        )

    def last_took_s(self, experiment: Experiment) -> float | None:
        """Seconds that the last run of its kind took, of the same experiment where there is one:
        same workload and target. None where none succeeded.
        """
        return self._one(
            """SELECT finished_at - started_at AS seconds FROM runs JOIN experiments
            ON experiments.id = runs.experiment WHERE state = 'succeeded' AND workload = ?
            AND compile_only = 0 AND origin IS NULL AND target = ? ORDER BY (experiment = ?) DESC, seq DESC LIMIT 1""",
            (experiment.workload, experiment.target, experiment.id),
            lambda row: row["seconds"],
        )

    def succeeded(self) -> frozenset[str]:
        """Ids of the experiments of which a run succeeded."""
        rows = self._rows(
            "SELECT DISTINCT experiment FROM runs WHERE state = 'succeeded' AND compile_only = 0 "
            "AND origin IS NULL"
        )
        return frozenset(row["experiment"] for row in rows)

    def texts(self, run: str, strategy: str) -> dict[str, str]:
        """Program texts of a strategy, by name."""
        rows = self._rows(
            "SELECT name, body FROM texts WHERE run = ? AND strategy = ?", (run, strategy)
        )
        return {row["name"]: read.text_of(run, row["body"]) for row in rows}

    def every_text(self, run: str) -> dict[str, dict[str, str]]:
        """Program texts of all strategies of a run, by strategy and name."""
        rows = self._rows("SELECT DISTINCT strategy FROM texts WHERE run = ?", (run,))
        return {row["strategy"]: self.texts(run, row["strategy"]) for row in rows}

    def text(self, run: str, strategy: str, name: str) -> str | None:
        """One of those texts; None where there is none of that name."""
        return self._one(
            "SELECT body FROM texts WHERE run = ? AND strategy = ? AND name = ?",
            (run, strategy, name),
            lambda row: read.text_of(run, row["body"]),
        )

    def history(
        self,
        *,
        workload: str | None = None,
        states: Sequence[str] = (),
        experiment: str | None = None,
        runs: Sequence[str] = (),
        where: Callable[[RunSummary], bool] | None = None,
        limit: int = 200,
        searched: bool | None = None,
        alone: bool = False,
        source: str = "imported",
        pinned_first: bool = False,
    ) -> tuple[RunSummary, ...]:
        """Runs, newest first: in any of `states` and with any of the ids `runs`, if there are some;
        of the experiment with that id; that `where` accepts. `searched`: only those of searches, or
        none but those that people named or pinned; `alone`: none of batches but those; `source`: of
        this folder ("here"), imported ones, too, or also "examples".
        """
        conditions = ["compile_only = 0", "TRUE" if runs else _SOURCES[source]]
        if searched is not None:
            conditions.append(_SEARCHED if searched else f"(NOT {_SEARCHED} OR {_LABELED})")
        if alone:
            conditions.append(f"(batch IS NULL OR {_LABELED})")
        values: list[Any] = []
        if workload is not None:
            conditions.append("workload = ?")
            values.append(workload)
        if experiment is not None:
            conditions.append("runs.experiment = ?")
            values.append(experiment)
        for column, any_of in (("state", states), ("runs.id", runs)):
            if any_of:
                conditions.append(f"{column} IN ({', '.join('?' * len(any_of))})")
                values += any_of
        most = limit if where is None else -1
        rows = self._listed(" AND ".join(conditions), (*values, most), pinned_first)
        readable = _readable(self._summary, rows)
        return tuple(islice(filter(where, readable) if where else readable, limit))

    def _listed(
        self, conditions: str, values: Sequence[Any], pinned_first: bool
    ) -> list[sqlite3.Row]:
        # pinned ones apart, so that the others come in the order of an index
        parts = (
            (f"runs.id IN {_PINNED}", f"runs.id NOT IN {_PINNED}") if pinned_first else ("TRUE",)
        )
        order = "ORDER BY listed_at DESC, seq DESC LIMIT ?"
        return [
            row
            for part in parts
            for row in self._rows(f"{_SUMMARY} WHERE {conditions} AND {part} {order}", values)
        ]

    def unread(self) -> tuple[Unread, ...]:
        """Runs that this version cannot read, newest first: `history` leaves them out."""
        stored = tuple(self._rows("SELECT COUNT(*), MAX(seq) FROM runs")[0])
        if self._unread[0] != stored:  # rows are read once: each screen lists them
            self._unread = stored, tuple(self._unreadable())
        return self._unread[1]

    def _unreadable(self) -> Iterator[Unread]:
        for row in self._rows(f"{_SUMMARY} ORDER BY seq DESC"):
            try:
                self._summary(row)
            except UnreadableRun as error:
                yield Unread(str(row["id"]), str(row["state"]), str(error))

    def _summary(self, row: sqlite3.Row) -> RunSummary:
        """A run of a list; those that are over are read once, and again when their row changes."""
        *others, spec = row  # as `_SUMMARY` orders them: long texts are compared by their hash
        if row["state"] not in TERMINAL:
            return read.summary_of(row)
        key = (*others, hash(spec))
        if key not in self._summaries:
            if len(self._summaries) >= _SUMMARIES_KEPT:
                self._summaries.clear()
            self._summaries[key] = read.summary_of(row)
        return self._summaries[key]

    def delete(self, runs: Sequence[str]) -> int:
        """Delete runs that are over, and experiments that no run is left of; how many runs were
        deleted.
        """
        with self._transaction() as db:
            gone = sum(
                db.execute(f"DELETE FROM runs WHERE id = ? AND NOT {IN_ACTIVE}", (run,)).rowcount
                for run in runs
            )
            if gone:
                db.execute("DELETE FROM experiments WHERE id NOT IN (SELECT experiment FROM runs)")
        if gone:
            self.shrink()
        return gone

    # Devices, and what processes ask of one another
    # -----------------------------------------------------------------

    def keep_environment(self, target: str, environment: Environment) -> None:
        """Store the device report of a target."""
        self._write(
            "INSERT OR REPLACE INTO environments VALUES (?, ?, ?)",
            (target, environment.model_dump_json(), time.time()),
        )

    def environment(self, target: str) -> Environment | None:
        """The last device report of a target; None where it cannot be read."""
        return self._one(
            "SELECT body FROM environments WHERE target = ?",
            (target,),
            lambda row: read.environment_of(row["body"]),
        )

    def environment_seen_at(self, target: str) -> float | None:
        """When that report was made; None without one."""
        return self._one(
            "SELECT seen_at FROM environments WHERE target = ?",
            (target,),
            lambda row: row["seen_at"],
        )

    def note_holder(self, pid: int, mark: str, file: str) -> None:
        """Keep which process works the queue, and by which lock file."""
        self._write("INSERT OR REPLACE INTO holder VALUES (1, ?, ?, ?)", (pid, mark, file))

    def holder(self) -> tuple[int, str, str] | None:
        """The process that last began to work the queue: pid, its mark, and its lock file."""
        return self._one(
            "SELECT pid, mark, file FROM holder",
            (),
            lambda row: (row["pid"], row["mark"], row["file"]),
        )

    def ask(self, kind: str, *, run: str | None = None, target: str | None = None) -> int:
        """Leave a request for the process that works the queue; its id."""
        with self._transaction() as db:
            db.execute("DELETE FROM requests WHERE answered_at < ?", (time.time() - 3600,))
            asked = db.execute(
                "INSERT INTO requests (kind, run, target, asked_at) VALUES (?, ?, ?, ?)",
                (kind, run, target, time.time()),
            )
            return int(asked.lastrowid or 0)

    def requests(self) -> tuple[Request, ...]:
        """Requests without an answer, oldest first."""
        return tuple(
            read.request_of(row)
            for row in self._rows("SELECT * FROM requests WHERE answered_at IS NULL ORDER BY id")
        )

    def request(self, number: int) -> Request | None:
        """The request of that id."""
        return self._one("SELECT * FROM requests WHERE id = ?", (number,), read.request_of)

    def answer(self, number: int, error: str | None = None) -> None:
        """Mark a request as done, or as failed."""
        self._write(
            "UPDATE requests SET answered_at = ?, error = ? WHERE id = ?",
            (time.time(), error, number),
        )


def _readable(make: Callable[[sqlite3.Row], T], rows: Sequence[sqlite3.Row]) -> Iterator[T]:
    for row in rows:
        with contextlib.suppress(UnreadableRun):
            yield make(row)

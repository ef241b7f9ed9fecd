"""The queue of a data folder: runs that wait in their lanes, and how they leave it."""

import json
import sqlite3
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from spmd_core.experiment import Experiment
from spmd_core.lab.store import rows as read
from spmd_core.lab.store.database import Database
from spmd_core.results import Failure
from spmd_core.runs import ACTIVE, RunStatus, lane_of_target

IN_ACTIVE = f"state IN {ACTIVE!r}"
IN_PROGRESS = f"state IN {ACTIVE[1:]!r}"  # they have left the queue
# The order of each lane: addresses take turns, who was served longest ago first, and so do the
# viewers of an address; who submits many waits behind who submits one.
_LINE = """SELECT id AS waiting_run,
        ROW_NUMBER() OVER (PARTITION BY lane ORDER BY turn, served, seq) AS position
    FROM (SELECT id, lane, seq,
            ROW_NUMBER() OVER (PARTITION BY lane, address ORDER BY own_turn, own_served, seq)
                AS turn,
            (SELECT MAX(started_at) FROM runs AS other WHERE other.address IS waiting.address
                AND other.origin IS NULL)
                AS served
        FROM (SELECT id, lane, seq, address,
                ROW_NUMBER() OVER (PARTITION BY lane, address, viewer ORDER BY seq) AS own_turn,
                (SELECT MAX(started_at) FROM runs AS other
                    WHERE other.address IS runs.address AND other.viewer IS runs.viewer
                    AND other.origin IS NULL)
                    AS own_served
            FROM runs WHERE state = 'queued') AS waiting)"""
STATUS = f"""SELECT runs.*, spec, position
    FROM runs JOIN experiments ON experiments.id = runs.experiment
    LEFT JOIN ({_LINE}) ON waiting_run = runs.id"""
# Which runs of a lane are taken: with a cluster it has those of batches, but for those that need
# devices of this machine
Which = Literal["any", "of batches", "for the cluster", "not for the cluster"]
_WHICH = {
    "any": "TRUE",
    "of batches": "batch IS NOT NULL",
    "for the cluster": "(batch IS NOT NULL AND compile_only = 0)",
    "not for the cluster": "(batch IS NULL OR compile_only = 1)",
}


class RunQueue(Database):
    """Runs from submission to start, as values."""

    def submit(
        self,
        run: str,
        experiment: Experiment,
        viewer: str | None = None,
        batch: str | None = None,
        compile_only: bool = False,
        client: int | None = None,
        lasts: bool = True,
        address: str | None = None,
        owner: str | None = None,
        owner_name: str | None = None,
    ) -> None:
        """Put a run into the queue; `viewer` None: of the command line. `client` is the process
        that waits for it; `lasts`: its place in the queue outlasts that process. `owner`:
        `issuer#sub` of who submits by login.
        """
        columns = {
            "id": run,
            "experiment": experiment.id,
            "state": "queued",
            "submitted_at": time.time(),
            "viewer": viewer,
            "batch": batch,
            "lane": lane_of_target(experiment.target, compile_only),
            "compile_only": int(compile_only),
            "client": client,
            "lasts": int(lasts),
            "address": address,
            "owner": owner,
            "owner_name": owner_name,
        }
        with self._transaction() as db:
            insert_run(db, experiment, columns)

    def queue_lengths(self, viewer: str, address: str | None = None) -> tuple[int, int, int]:
        """Runs that are not over: all, of one viewer, of one address; those of one batch count as
        one.
        """
        row = self._rows(
            f"""SELECT COUNT(DISTINCT COALESCE(batch, id)) AS everyone, COUNT(DISTINCT
                CASE WHEN viewer = ? THEN COALESCE(batch, id) END) AS own, COUNT(DISTINCT
                CASE WHEN address = ? THEN COALESCE(batch, id) END) AS beside
                FROM runs WHERE {IN_ACTIVE}""",
            (viewer, address),
        )[0]
        return row["everyone"], row["own"], row["beside"]

    def has_active(self, batch: str) -> bool:
        """Whether a run of a batch is not over."""
        rows = self._rows(f"SELECT 1 FROM runs WHERE batch = ? AND {IN_ACTIVE} LIMIT 1", (batch,))
        return bool(rows)

    def active_of(self, viewer: str | None) -> tuple[str, ...]:
        """Ids of a viewer's runs that are not over, the last in the queue first."""
        rows = self._rows(
            f"SELECT id FROM runs WHERE viewer = ? AND {IN_ACTIVE} ORDER BY seq DESC", (viewer,)
        )
        return tuple(row["id"] for row in rows)

    def active_of_others(self, viewer: str) -> frozenset[str]:
        """Ids of the runs of other viewers that are not over; those of the command line are nobody's."""
        rows = self._rows(f"SELECT id FROM runs WHERE viewer != ? AND {IN_ACTIVE}", (viewer,))
        return frozenset(row["id"] for row in rows)

    def next_queued(self, lane: str, which: Which = "any") -> RunStatus | None:
        """The first run of a lane of those that are taken there; UnreadableRun where this version
        cannot read it.
        """
        return self._one(
            f"{STATUS} WHERE state = 'queued' AND lane = ? AND {_WHICH[which]} "
            "ORDER BY position LIMIT 1",
            (lane,),
            read.status_of,
        )

    def hold_up(self, lane: str, reason: str, before: float) -> int:
        """Note why the cluster does not take its runs, for whoever waits for those that were queued
        by then (seconds since the epoch); how many wait.
        """
        return self._write(
            f"""UPDATE runs SET progress = ? WHERE state = 'queued' AND lane = ?
                    AND {_WHICH["for the cluster"]} AND submitted_at <= ?""",
            (json.dumps({"held_up": reason}), lane, before),
        )

    def let_on(self) -> None:
        """Nothing holds up what is queued."""
        self._write(
            "UPDATE runs SET progress = NULL WHERE state = 'queued' AND progress IS NOT NULL"
        )

    def put_back(self, run: str, held_up: str | None) -> bool:
        """Put a started run back in its place in the queue; False where it is over, or ends."""
        return bool(
            self._write(
                f"""UPDATE runs SET state = 'queued', started_at = NULL, worker_pid = NULL,
                    progress = ? WHERE id = ? AND {IN_ACTIVE} AND NOT EXISTS (SELECT 1 FROM
                    requests WHERE run = ? AND answered_at IS NULL)""",
                (json.dumps({"held_up": held_up}), run, run),
            )
        )

    def refuse_queued(self, run: str, error: Failure) -> bool:
        """Fail a run that is still in the queue; False where it is not."""
        return bool(
            self._write(
                """UPDATE runs SET state = 'failed', finished_at = ?, error_kind = ?,
                    error_message = ? WHERE id = ? AND state = 'queued'""",
                (time.time(), error.kind, error.message, run),
            )
        )

    def start(self, run: str) -> bool:
        """Take a run out of the queue; False where it is no longer in it."""
        return bool(
            self._write(
                """UPDATE runs SET state = 'starting', started_at = ?, progress = NULL
                    WHERE id = ? AND state = 'queued'""",
                (time.time(), run),
            )
        )

    def cancel_queued(self, run: str, state: str = "cancelled") -> bool:
        """Cancel a run that is still in the queue, or interrupt it; False where it is not."""
        return bool(
            self._write(
                "UPDATE runs SET state = ?, finished_at = ? WHERE id = ? AND state = 'queued'",
                (state, time.time(), run),
            )
        )

    def abandoned(self, lives: Callable[[int | None], bool]) -> tuple[str, ...]:
        """Runs that are not over and that nobody waits for any more: their client, for as long as
        which they last, is gone.
        """
        rows = self._rows(f"SELECT id, client FROM runs WHERE {IN_ACTIVE} AND NOT lasts")
        gone = {client for client in {row["client"] for row in rows} if not lives(client)}
        return tuple(row["id"] for row in rows if row["client"] in gone)

    def give_back(self, lives: Callable[[int | None], bool]) -> None:
        """Settle the runs stored as running that nobody works: for who has just taken the lock
        of the data folder, or is about to give it up. A run goes back to its place in the queue
        where its client lives; else it is interrupted.
        """
        for row in self._rows(f"SELECT id, client FROM runs WHERE {IN_PROGRESS}"):
            if lives(row["client"]):
                self.put_back(row["id"], None)
        self._write(
            f"""UPDATE runs SET finished_at = ?, state = CASE WHEN EXISTS (SELECT 1 FROM requests
                    WHERE kind = 'cancel' AND run = runs.id AND answered_at IS NULL)
                    THEN 'cancelled' ELSE 'interrupted' END WHERE {IN_PROGRESS}""",
            (time.time(),),
        )


def insert_run(db: sqlite3.Connection, experiment: Experiment, columns: Mapping[str, Any]) -> None:
    """Store a run with its experiment, inside the caller's transaction.

    No list leads with a run of a clock that was ahead: an imported one is listed at its import at
    the latest, and what is stored already no later than what is stored now.
    """
    now = time.time()
    columns = {**columns, "listed_at": min(columns["submitted_at"], now)}
    latest = now if columns.get("origin") else columns["listed_at"]
    db.execute("UPDATE runs SET listed_at = ? WHERE listed_at > ?", (latest, latest))
    spec = json.dumps(experiment.to_json(), separators=(",", ":"))
    db.execute(
        "INSERT OR IGNORE INTO experiments VALUES (?, ?, ?, ?)",
        (experiment.id, spec, experiment.workload, experiment.target),
    )
    marks = ", ".join("?" * len(columns))
    db.execute(f"INSERT INTO runs ({', '.join(columns)}) VALUES ({marks})", (*columns.values(),))

"""The searches of a data folder: question, progress, and the outcome of every candidate."""

import json
import sqlite3
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from spmd_core.base import RequestError, refuse, shorten
from spmd_core.lab.store.database import Database
from spmd_core.lab.store.labels import CollectionsOfRuns
from spmd_core.search import KeptSearch, read_kept


class Remedies(Database):
    """The table of what was tried for each run, as JSON values."""

    def keep(self, run: str, body: dict[str, object]) -> None:
        """Store the remedies of a run, in place of what was there; StorageError where the run was
        deleted.
        """
        packed = zlib.compress(json.dumps(body, separators=(",", ":")).encode())
        self._write("INSERT OR REPLACE INTO remedies VALUES (?, ?)", (run, packed))

    def of(self, run: str) -> dict[str, object] | None:
        """The stored remedies of a run; None where nothing was tried."""
        return self._one(
            "SELECT body FROM remedies WHERE run = ?",
            (run,),
            lambda row: json.loads(zlib.decompress(row["body"])),
        )


class KeptSearches(CollectionsOfRuns):
    """Kept searches as values. A foreign one is in no other table: it cannot be searched on."""

    def kept_search(self, search: str) -> KeptSearch:
        """The search of that id; RequestError where there is none, or it has no answer yet."""
        rows = self._rows("SELECT body FROM kept_searches WHERE id = ?", (search,))
        if not rows:
            rule = "is not stored here, or has no answer yet"
            raise refuse(f"search {shorten(search)}", rule, "see Find a sharding and History")
        return _kept(rows[0])

    def kept_searches(self, search: str | None = None) -> tuple[KeptSearch, ...]:
        """Every kept search that this version can read, or the one of that id, the last first."""
        query = "SELECT body FROM kept_searches WHERE ? IS NULL OR id = ? ORDER BY at DESC, id"
        kept = []
        for row in self._rows(query, (search, search)):
            with suppress(RequestError):
                kept.append(_kept(row))
        return tuple(kept)

    def delete_kept_search(self, search: str) -> None:
        """Delete a foreign search; those of this data folder are forgotten by age."""
        self._write("DELETE FROM kept_searches WHERE id = ? AND is_foreign", (search,))


def insert_kept(db: sqlite3.Connection, kept: KeptSearch) -> None:
    """Store a search inside the caller's transaction, in the place of its earlier answer."""
    body = zlib.compress(kept.model_dump_json().encode())
    row = (kept.id, kept.at, kept.origin is not None, body)
    db.execute("INSERT OR REPLACE INTO kept_searches VALUES (?, ?, ?, ?)", row)


def _kept(row: sqlite3.Row) -> KeptSearch:
    try:
        return read_kept(zlib.decompress(row["body"]))
    except (zlib.error, TypeError) as error:
        raise refuse("a stored search", "is damaged", "search on, or import it again") from error


KEPT = 50  # searches; the oldest beyond them are forgotten


@dataclass(frozen=True, slots=True)
class StoredSearch:
    """A search as it was last written. `state`: running, paused, cancelled or done."""

    id: str
    question: dict[str, object]
    state: str
    started_at: float
    updated_at: float
    spent_s: float
    space: int
    words: str


class Searches(Database):
    """What the tables of searches hold, as values."""

    def begin(self, search: str, question: dict[str, object], space: int) -> None:
        """Store that a search runs, also if it ran before."""
        now = time.time()
        with self._transaction() as db:
            db.execute(
                """INSERT INTO searches
                    (id, question, state, started_at, updated_at, spent_s, space)
                    VALUES (?, ?, 'running', ?, ?, 0, ?) ON CONFLICT (id) DO UPDATE
                    SET state = 'running', updated_at = excluded.updated_at,
                    space = excluded.space""",
                (search, json.dumps(question), now, now, space),
            )
            db.execute(
                # what was only estimated goes first: who may only look makes no more than that;
                # what someone kept goes last: an answer that took no search
                """DELETE FROM searches WHERE id != ? AND id NOT IN
                    (SELECT id FROM searches ORDER BY spent_s = 0 AND words != '' DESC, EXISTS
                        (SELECT 1 FROM search_outcomes WHERE search = id) DESC,
                        updated_at DESC LIMIT ?)""",
                (search, KEPT),
            )
            db.execute(
                """DELETE FROM kept_searches
                    WHERE NOT is_foreign AND id NOT IN (SELECT id FROM searches)"""
            )

    def keep(self, kept: KeptSearch) -> None:
        """How a search stands: its state, seconds of work, and its answer."""
        with self._transaction() as db:
            db.execute(
                "UPDATE searches SET state = ?, updated_at = ?, spent_s = ?, words = ? "
                "WHERE id = ?",
                (kept.state, kept.at, kept.spent_s, kept.words, kept.search),
            )
            insert_kept(db, kept)

    def keep_outcomes(self, search: str, outcomes: Iterable[tuple[int, dict[str, object]]]) -> None:
        """Store the outcome of candidates: compiled, measured, failed or pruned."""
        rows = [(search, number, json.dumps(body)) for number, body in outcomes]
        with self._transaction() as db:
            db.executemany("INSERT OR REPLACE INTO search_outcomes VALUES (?, ?, ?)", rows)

    def outcomes(self, search: str) -> dict[int, dict[str, object]]:
        """The outcomes of a search, by the number of the candidate."""
        rows = self._rows("SELECT number, body FROM search_outcomes WHERE search = ?", (search,))
        return {row["number"]: json.loads(row["body"]) for row in rows}

    def find(self, search: str) -> StoredSearch | None:
        """The search of that id; None where there is none."""
        return next(iter(self._listed("WHERE id = ?", search)), None)

    def latest(self, limit: int = KEPT) -> tuple[StoredSearch, ...]:
        """Searches, the last written first."""
        return self._listed("ORDER BY updated_at DESC LIMIT ?", limit)

    def _listed(self, rest: str, *values: Any) -> tuple[StoredSearch, ...]:
        rows = self._rows(
            "SELECT id, question, state, started_at, updated_at, spent_s, space, "
            f"words FROM searches {rest}",
            values,
        )
        return tuple(
            StoredSearch(
                row["id"],
                json.loads(row["question"]),
                row["state"],
                row["started_at"],
                row["updated_at"],
                row["spent_s"],
                row["space"],
                row["words"],
            )
            for row in rows
        )

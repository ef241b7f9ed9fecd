"""The searches of a data folder: question, progress, and the outcome of every candidate."""

import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from spmd_core.lab.store.database import Database
from spmd_core.lab.store.kept_searches import insert_kept
from spmd_core.search import KeptSearch

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
                # what was only estimated goes first: who may only look makes no more than that
                """DELETE FROM searches WHERE id != ? AND id NOT IN
                    (SELECT id FROM searches ORDER BY EXISTS
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
